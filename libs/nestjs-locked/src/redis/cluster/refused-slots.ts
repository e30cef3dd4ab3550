import { LockStoreError } from '../../core/lock.errors.js';
import type { Clock } from '../../core/time/clock.js';
import type { LockServersListener } from '../connection/lock-servers.js';
import { reasonOf } from '../connection/server/reason-of.js';
import type {
  CommandFailure,
  CommandOutcome,
  RedisCommand,
} from '../connection/traffic/redis-command.js';
import type { ClusterNodes } from './cluster-nodes.js';
import { redirectionOf } from './redirection.js';

/** The pause after a refusal before its keys are tried again: short at first, before the outage is reported. */
const FIRST_TRY_AFTER_MS = 250;
const TRY_AFTER_MS = 1_000;

/** The name for all slots while the whole cluster is down. */
const WHOLE = 'all slots';

/** The names of the outages of a slot. */
export function slotOutagesOf(slot: number): readonly [slot: string, whole: string] {
  return [`slot ${slot}`, WHOLE];
}

export interface RefusedSlotsOptions {
  readonly nodes: ClusterNodes;
  /** The keys of a lock in Redis. */
  readonly redisKeysOf: (key: string) => readonly string[];
  readonly clock: Clock;
  readonly listener: Pick<LockServersListener, 'lost' | 'back'>;
  /** Sends a command to the node of its key. */
  readonly send: (command: RedisCommand) => Promise<CommandOutcome>;
}

/**
 * Tracks slots whose keys are refused for longer than a command may take, although every master answers. Such a slot is
 * stuck on its way to another master, or no node serves it. No connection is lost then, so it is a separate outage. It
 * ends when the refused keys are accepted again.
 */
export class RefusedSlots {
  readonly #options: RefusedSlotsOptions;
  /** Cancels the next try of each outage. */
  readonly #cancelTry = new Map<string, () => void>();
  #isClosed = false;

  constructor(options: RefusedSlotsOptions) {
    this.#options = options;
  }

  /** Called when a command has failed after its whole time. */
  failed({ keys, redisKey }: RedisCommand, failure: CommandFailure): void {
    if (redisKey === undefined || keys.length === 0) return; // not for a lock
    const { nodes } = this.#options;
    const slot = nodes.slotOf(redisKey);
    const redirection = redirectionOf(failure);
    const isKnown = nodes.ofSlot(slot) !== undefined;
    if (redirection === undefined && isKnown) return;
    // A lost master is the outage itself, and the reason why the cluster is down or incomplete.
    const hasMoved = redirection !== undefined && redirection.kind !== 'down';
    if (!hasMoved && !nodes.all.every(({ connections }) => connections.isReady)) return;
    const isWhole = redirection?.kind === 'down' && redirection.isWhole;
    const [one, whole] = slotOutagesOf(slot);
    this.#begin(isWhole ? whole : one, keys, redisKey, failure);
  }

  close(): void {
    this.#isClosed = true;
    for (const cancel of this.#cancelTry.values()) cancel();
  }

  #begin(slots: string, keys: readonly string[], redisKey: string, failure: CommandFailure): void {
    if (this.#isClosed || this.#cancelTry.has(slots)) return;
    const { cause } = failure;
    const message = `Cannot use ${slots} of the cluster: ${reasonOf(cause.cause ?? cause)}; unless slots are being moved right now, 'redis-cli --cluster check' shows what is wrong, and 'redis-cli --cluster fix' repairs it`;
    this.#options.listener.lost(new LockStoreError(message, undefined, { cause }), slots);
    const redisKeys = keys.flatMap(this.#options.redisKeysOf);
    const again: RedisCommand = {
      action: `try ${slots} of the cluster again`,
      keys: [],
      redisKey,
      send: (redis) => redis.eval('return 1', redisKeys.length, ...redisKeys),
    };
    this.#tryLater(slots, again, FIRST_TRY_AFTER_MS);
  }

  #tryLater(slots: string, command: RedisCommand, afterMs = TRY_AFTER_MS): void {
    const { clock } = this.#options;
    const cancel = clock.after(afterMs, () => void this.#try(slots, command));
    this.#cancelTry.set(slots, cancel);
  }

  /** Never rejects. If the slot is accepted again but its master is lost, that is another outage. */
  async #try(slots: string, command: RedisCommand): Promise<void> {
    const outcome = await this.#options.send(command);
    if (this.#isClosed) return;
    if (outcome.kind === 'failed') return this.#tryLater(slots, command);
    this.#cancelTry.delete(slots);
    this.#options.listener.back(slots);
  }
}
