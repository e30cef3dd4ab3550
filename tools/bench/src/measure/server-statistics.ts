import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { spreadOf } from './statistics.js';

const RENEW =
  "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";

/** What a server has done so far, for each command. */
export type CommandStatistics = ReadonlyMap<
  string,
  { readonly calls: number; readonly us: number }
>;

/** Of all calls of a command, the share that clients have sent. The others were made inside of scripts. */
export type ClientShares = ReadonlyMap<string, number>;

/** What a server has done for clients meanwhile. */
export interface Spent {
  /** How many commands clients have sent, and the microseconds that they took, scripts included. */
  readonly commands: number;
  readonly us: number;
  /** User and system time of the server, in microseconds: commands, network and everything else. */
  readonly serverUs: number;
}

/** Our own view of the server, on a connection that no lock uses. */
export class ServerStatistics {
  readonly redis: Redis;
  readonly #shares = new Map<string, ClientShares>();

  constructor(url: string) {
    this.redis = new Redis(url);
  }

  async commands(): Promise<CommandStatistics> {
    const lines = (await this.redis.info('commandstats')).matchAll(
      /^cmdstat_([^:]+):calls=(\d+),usec=(\d+)/gm,
    );
    return new Map(
      Array.from(lines, ([, name = '', calls, us]) => [
        name,
        { calls: Number(calls), us: Number(us) },
      ]),
    );
  }

  /** How long it takes to ask the server for nothing, from this process. */
  async roundTripMs(): Promise<number> {
    const trips: number[] = [];
    for (let n = 0; n < 100; n += 1) {
      const from = performance.now();
      await this.redis.ping();
      trips.push(performance.now() - from);
    }
    return spreadOf(trips).median;
  }

  async usedMemory(): Promise<number> {
    return Number(/^used_memory:(\d+)/m.exec(await this.redis.info('memory'))?.[1]);
  }

  /**
   * Tells what the server has spent on `act`. The first time with this name, it only finds out which commands clients
   * send, and the numbers are NaN.
   */
  async spentOn<T>(name: string, act: () => Promise<T>): Promise<T & Spent> {
    const shares = this.#shares.get(name);
    if (shares === undefined) {
      let result = undefined as T;
      const watched = async (): Promise<void> => void (result = await act());
      this.#shares.set(name, await this.#clientShares(watched));
      return { ...result, commands: NaN, us: NaN, serverUs: NaN };
    }
    const before = { commands: await this.commands(), cpuUs: await this.cpuUs() };
    const result = await act();
    const serverUs = (await this.cpuUs()) - before.cpuUs;
    return { ...result, ...sentBetween(before.commands, await this.commands(), shares), serverUs };
  }

  /**
   * Watches what `act` makes clients send. Redis counts commands inside of scripts like those of clients, although the
   * time of a script includes them. Only MONITOR tells the two apart. It slows the server down, so nothing is measured
   * meanwhile.
   */
  async #clientShares(act: () => Promise<unknown>): Promise<ClientShares> {
    const sent = new Map<string, number>();
    const inScripts = new Map<string, number>();
    const monitor = await this.redis.monitor();
    monitor.on('monitor', (_time: string, [name = '']: string[], source: string) => {
      const counts = source === 'lua' ? inScripts : sent;
      const command = name.toLowerCase();
      counts.set(command, (counts.get(command) ?? 0) + 1);
    });
    try {
      await act();
      await sleep(50); // what was sent last is reported last
    } finally {
      monitor.disconnect();
    }
    return new Map(
      Array.from(sent, ([name, count]) => [name, count / (count + (inScripts.get(name) ?? 0))]),
    );
  }

  /** User and system time of the server so far, in microseconds: commands, network and everything else. */
  async cpuUs(): Promise<number> {
    const info = await this.redis.info('cpu');
    const seconds = (name: string): number =>
      Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1]);
    return 1e6 * (seconds('used_cpu_user') + seconds('used_cpu_sys'));
  }

  async version(): Promise<string> {
    const info = await this.redis.info('server');
    return /^redis_version:(\S+)/m.exec(info)?.[1] ?? 'unknown';
  }

  /**
   * What it costs the server to renew so many keys with a command for each: an owner check and PEXPIRE, nothing else.
   * They come one after the other, as from timers of their own.
   * @returns microseconds for each key
   */
  async renewOneByOneUs(count: number): Promise<number> {
    const keys = Array.from({ length: count }, (_, n) => `one-by-one:${n}`);
    await this.redis.mset(keys.flatMap((key) => [key, 'owner']));
    const sha = (await this.redis.script('LOAD', RENEW)) as string;
    const before = await this.cpuUs();
    for (const key of keys) await this.redis.evalsha(sha, 1, key, 'owner', 30_000);
    const us = (await this.cpuUs()) - before;
    await this.redis.unlink(keys);
    return us / count;
  }

  close(): void {
    this.redis.disconnect();
  }
}

/** What clients asked for between two moments. */
export function sentBetween(
  before: CommandStatistics,
  after: CommandStatistics,
  shares: ClientShares,
): Pick<Spent, 'commands' | 'us'> {
  let commands = 0;
  let us = 0;
  for (const [name, share] of shares) {
    const from = before.get(name) ?? { calls: 0, us: 0 };
    const to = after.get(name) ?? from;
    commands += share * (to.calls - from.calls);
    us += share * (to.us - from.us);
  }
  return { commands, us };
}
