import { LockStoreError } from '../../core/lock.errors.js';
import { afterSilence } from '../../core/time/after-silence.js';
import { atMost } from '../../core/time/at-most.js';
import type { LockServersListener } from '../connection/lock-servers.js';
import { RedisConnections } from '../connection/redis-connections.js';
import type { RedisConnectionsOptions } from '../connection/redis-connections.options.js';
import { reasonOf } from '../connection/server/reason-of.js';
import type { RedisClient } from '../connection/server/redis-client.js';
import type { ServerInfo } from '../connection/server/server-info.js';

/** The pause before a node that refused us is tried again. */
const REFUSED_MS = 1_000;

/** A node believed to be a master of the cluster, and our connections to it. */
export class ClusterNode {
  /** Its reachable address, `host:port`. */
  readonly address: string;
  readonly connections: RedisConnections;
  /** Until when it is kept even without slots. */
  guestUntil = 0;
  readonly #options: RedisConnectionsOptions;
  readonly #listener: LockServersListener;
  #isGone = false;
  #endPause: () => void = () => {};

  /** @param someKey finds a key of this node, if any */
  constructor(
    address: string,
    client: RedisClient,
    options: RedisConnectionsOptions,
    listener: LockServersListener,
    someKey: () => string | undefined,
  ) {
    this.address = address;
    this.#options = options;
    this.#listener = listener;
    this.connections = new RedisConnections(client, options, { address, someKey });
  }

  /** Whether it no longer has slots, and its connections are closed. */
  get isGone(): boolean {
    return this.#isGone;
  }

  /** @throws LockConfigError · LockStoreError · LockAbortedError if it was removed meanwhile */
  async open(limitMs: number): Promise<ServerInfo> {
    const servers = await this.connections.open(this.#listener, limitMs);
    return servers.get(this.address) as ServerInfo;
  }

  /**
   * Opens a node that was found while the locks were open: until it succeeds, or until the node has gone.
   *
   * Nobody waits for this, so it has no time limit: the commands for this node have their own. While the node cannot be
   * reached, `open` does not end, so a timer beside it reports the outage. A node that refuses us ends `open`; the
   * refusal is reported at once, and the node is tried again after a pause. When it is open, it is reported as
   * subscribed and connected: until then it could send us nothing, so the waiters of its keys look again.
   */
  async openLater(): Promise<void> {
    const { clock, timeLimitMs } = this.#options;
    const away = `master ${this.address} of the cluster cannot be reached`;
    const tellAway = (): void => this.#listener.lost(new LockStoreError(away), this.address);
    const cancel = afterSilence(clock, timeLimitMs, tellAway);
    while (!this.#isGone) {
      try {
        const server = await this.open(Infinity);
        this.#listener.back(this.address);
        this.#listener.subscribed(this.address);
        this.#listener.connected(server, this.address);
        break;
      } catch (cause) {
        if (this.#isGone) break;
        this.connections.close();
        const refused = new LockStoreError(`${away}: ${reasonOf(cause)}`, undefined, { cause });
        this.#listener.lost(refused, this.address);
        const ended = new Promise<void>((resolve) => (this.#endPause = resolve));
        await atMost(clock, REFUSED_MS, ended);
      }
    }
    cancel();
  }

  /** @param reason the reason with which unfinished commands fail */
  close(reason?: string): void {
    this.#isGone = true;
    this.connections.close(reason);
    this.#endPause();
  }
}
