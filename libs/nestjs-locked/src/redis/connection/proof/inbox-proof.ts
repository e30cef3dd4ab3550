import type { Clock } from '../../../core/time/clock.js';
import type { RedisKeys } from '../../scripts/redis-keys.js';
import type { RedisScript } from '../../scripts/redis-script.js';
import { withinLimit } from '../silence/time-limit.js';
import type { CommandConnection } from '../traffic/command-connection.js';
import type { CommandFailure, RedisCommand } from '../traffic/redis-command.js';

/** The outcome of a message that a script published to our own inbox. */
export type InboxProofOutcome =
  | { readonly kind: 'arrived' }
  /** There is no listener, or the message has not arrived, so commands and inbox are on different servers. */
  | { readonly kind: 'missing' }
  /** The script was not answered, or was refused. */
  | CommandFailure;

export interface InboxProofOptions {
  readonly commands: CommandConnection;
  readonly clock: Clock;
  readonly keys: RedisKeys;
  readonly processId: string;
  readonly script: RedisScript;
  /** The lock that the script tries. Undefined if a node of a cluster has no keys. */
  readonly probedKey: () => string | undefined;
  readonly timeLimitMs: number;
}

/**
 * Proves that messages of scripts arrive here. Arrival alone is not enough: a master forwards messages to its replicas,
 * whose listeners are not counted. So the server must also report us as a listener.
 */
export class InboxProof {
  readonly #options: InboxProofOptions;
  #count = 0;
  readonly #arrivals = new Map<string, () => void>();

  constructor(options: InboxProofOptions) {
    this.#options = options;
  }

  /**
   * Never rejects.
   * @param isReplicated whether required replicas are checked too
   */
  async run(isReplicated: boolean): Promise<InboxProofOutcome> {
    const { commands, clock, keys, processId, script, timeLimitMs } = this.#options;
    const id = String(++this.#count);
    const arrival = new Promise<void>((resolve) => this.#arrivals.set(id, resolve));
    try {
      const probed = this.#options.probedKey();
      const redisKeys = probed === undefined ? [] : keys.probedOf(probed);
      const args = [keys.inboxPrefix + processId, `probe ${id}`];
      const command: RedisCommand = {
        action: 'prove the scripts',
        keys: [],
        mustBeReplicated: () => isReplicated,
        send: (redis, whole) => script.send(redis, redisKeys, args, whole),
      };
      const outcome = await commands.run(command, (ended) => ended);
      if (outcome.kind === 'failed') return outcome;
      if (Number(outcome.reply) === 0) return { kind: 'missing' };
      await withinLimit(clock, timeLimitMs, 'receive a message', () => arrival);
      return { kind: 'arrived' };
    } catch {
      return { kind: 'missing' };
    } finally {
      this.#arrivals.delete(id);
    }
  }

  /** Called when the message has arrived in the inbox. */
  arrived(id: string): void {
    this.#arrivals.get(id)?.();
  }

  /** Ends the waits. */
  close(): void {
    for (const arrive of this.#arrivals.values()) arrive();
  }
}
