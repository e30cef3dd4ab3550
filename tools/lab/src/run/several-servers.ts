import { RedisServer } from 'dev-servers';
import { TcpProxy } from 'kit';
import { setTimeout as sleep } from 'node:timers/promises';
import { LEASE_MS } from '../scale.js';

export interface SeveralServersOptions {
  /** Whether the clock of the second server can be set. */
  readonly hasOwnClock?: boolean;
}

/** With these, the servers of ours vote: they have run for longer than any lease lasts, by a clock of whole seconds. */
const OLD_ENOUGH_MS = LEASE_MS + 2_000;

/** Until a client knows that its way is cut, or connects again. */
const NOTICE_MS = 150;

/** Three independent servers, and a second way to the third one. */
export class SeveralServers {
  private constructor(
    private readonly first: RedisServer,
    private readonly second: RedisServer,
    private readonly third: RedisServer,
    private readonly way: TcpProxy,
  ) {}

  /** All stages wait until the servers have run for a while, because ours needs that. */
  static async start({ hasOwnClock = false }: SeveralServersOptions): Promise<SeveralServers> {
    const [first, second, third] = await Promise.all([
      RedisServer.start(),
      RedisServer.start({ hasOwnClock }),
      RedisServer.start(),
    ]);
    const way = await new TcpProxy(third.port).open();
    await sleep(OLD_ENOUGH_MS);
    return new SeveralServers(first, second, third, way);
  }

  get urls(): readonly string[] {
    return [this.first.url, this.second.url, this.third.url];
  }

  /** The addresses of somebody who can be cut off from the third server. */
  get urlsToCut(): readonly string[] {
    return [this.first.url, this.second.url, this.way.url];
  }

  /** Who uses that way does not reach the third server any more. */
  async cutOff(): Promise<void> {
    await this.way.close();
    await sleep(NOTICE_MS);
  }

  async reconnect(): Promise<void> {
    await this.way.open();
  }

  async stepClockOfSecond(seconds: number): Promise<void> {
    await this.second.stepClock(seconds);
  }

  /** The second one comes back without its data. */
  async restartSecond(): Promise<void> {
    await this.second.restart();
  }

  async killTwo(): Promise<void> {
    await Promise.all([this.second.kill(), this.third.kill()]);
  }

  /** The two that were killed come back without their data. */
  async restartTwo(): Promise<void> {
    await Promise.all([this.second.restart(), this.third.restart()]);
    await sleep(NOTICE_MS);
  }

  async stop(): Promise<void> {
    await this.way.close();
    await Promise.all([this.first.stop(), this.second.stop(), this.third.stop()]);
  }
}
