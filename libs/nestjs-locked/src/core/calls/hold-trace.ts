import { HOLD } from '../events/lock-channels.js';
import {
  AROUND_WORK,
  type LockHoldMessage,
  type Unfinished,
  type WithAroundWork,
  type WithTraceParent,
} from '../events/lock-messages.js';
import type { Hold } from '../queue/hold.js';
import { templateOf } from '../template-of.js';
import type { Clock } from '../time/clock.js';
import { acquiredVia } from './acquired-via.js';
import type { ReentryLevel } from './reentry-level.js';

/** Tells the subscribers of `nestjs-locked:hold` about one lock, from its first moment to its release. */
export class HoldTrace {
  readonly #clock: Clock;
  readonly #startedAt: number;
  readonly #holds: readonly Hold[];
  readonly #message: Unfinished<LockHoldMessage> & WithTraceParent & WithAroundWork;

  private constructor(clock: Clock, levels: readonly ReentryLevel[], message: LockHoldMessage) {
    this.#clock = clock;
    this.#startedAt = clock.now();
    this.#holds = levels.map(({ hold }) => hold);
    this.#message = message;
    for (const hold of this.#holds) hold.message = this.#message;
  }

  /** @returns undefined if nobody listens, or if the call has joined all its keys */
  static of(
    clock: Clock,
    service: string | undefined,
    levels: readonly ReentryLevel[],
  ): HoldTrace | undefined {
    if (!HOLD.hasSubscribers) return undefined;
    const own = levels.filter(({ isRoot }) => isRoot);
    const [first] = own;
    if (first === undefined) return undefined;
    const { key, label, fencingToken, options } = first.hold;
    return new HoldTrace(clock, own, {
      service,
      keys: own.map(({ hold }) => hold.key),
      template: templateOf(key, options.template),
      label,
      fencingToken,
      via: acquiredVia(own),
    });
  }

  /** Called when the lock is handed to code that will release it. */
  began(): void {
    HOLD.start.publish(this.#message);
    HOLD.end.publish(this.#message);
  }

  /** Runs the work with the stores that subscribers have bound. */
  run<T>(work: () => T): T {
    return HOLD.start.runStores(this.#message, () => {
      const around = this.#message[AROUND_WORK];
      try {
        return around === undefined ? work() : around(work);
      } finally {
        HOLD.end.publish(this.#message);
      }
    });
  }

  /** @param wasHeld whether the lock was ours until its release; undefined if that is unknown */
  ended(wasHeld: boolean | undefined): void {
    this.#message.heldMs = this.#clock.now() - this.#startedAt;
    const reason = this.#holds.find(({ lostReason }) => lostReason !== undefined)?.lostReason;
    const lost = reason ?? (wasHeld === false ? 'deleted' : undefined);
    const isUnknown = wasHeld === undefined || this.#holds.some(({ doubt }) => doubt !== undefined);
    if (lost !== undefined) this.#message.lost = lost;
    this.#message.end = lost !== undefined ? 'lost' : isUnknown ? 'unknown' : 'released';
    HOLD.asyncStart.publish(this.#message);
    HOLD.asyncEnd.publish(this.#message);
  }
}
