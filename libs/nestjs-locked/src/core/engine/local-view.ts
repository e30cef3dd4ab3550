import { hostname } from 'node:os';
import type { AskedHolder } from '../deadlocks/holder-questions.js';
import { presentCall, withCall } from '../deadlocks/present-call.js';
import type { LockHolder, LockInfo, LockWaiter } from '../lock-info.js';
import type { HeldMode } from '../lock-mode.js';
import type { LocalQueue } from '../queue/local-queue.js';
import type { Occupancy } from '../queue/occupancy.js';
import type { QueuesByKey } from '../queue/queues-by-key.js';
import { introducedAt, isTokenOf, modeOf, processIdOf } from '../store/lease-token.js';
import {
  type HolderRecord,
  holderWith,
  type LockRecord,
  type SurveyedLock,
  type WaiterRecord,
} from '../store/lock-inspector.js';
import { lockState } from '../store/lock-state.js';
import { leaseIdOf, permitOf, tokensIn } from '../store/shared-value.js';
import type { Clock } from '../time/clock.js';

/** How many of those that wait are named. */
export const MOST_WAITING = 50;

/**
 * What this process knows better than the store: which of its own calls has a key now, and which of them wait. The
 * store knows only the call for which the process requested the lease, and that the process waits.
 */
export class LocalView {
  readonly #queues: QueuesByKey;
  readonly #processId: string;
  readonly #clock: Clock;

  constructor(queues: QueuesByKey, processId: string, clock: Clock) {
    this.#queues = queues;
    this.#processId = processId;
    this.#clock = clock;
  }

  /** The holder of a key if it is a call of this process. */
  holderOf(key: string): LockHolder | undefined {
    const held = this.#queues.occupanciesOf(key).find(({ isHeld }) => isHeld);
    return held === undefined ? undefined : this.#callHere(held.label);
  }

  /**
   * The public form of what the store says about a key.
   * @param told by the process that has it, if it was asked; if it does not say which call has it now, or if another
   * lease has it meanwhile, the store's record stands
   */
  infoOf(record: LockRecord, told?: AskedHolder): LockInfo {
    const { key, value, remainingMs, waiters, waitsHere } = record;
    const queues = this.#queues.queuesOf(key);
    const [token = ''] = tokensIn(value);
    const here = this.#occupancyOf(key, token);
    const call = here === undefined ? presentCall(value, told) : here.call;
    const [first, ...others] = record.holders.map((holder) => ({
      ...this.#holderWith(key, holder),
      ...permitOf(value, holder.token),
    }));
    const holder = withCall(first, call);
    return {
      key,
      state: lockState(value),
      mode: modeOf(token),
      leaseId: leaseIdOf(value),
      holder,
      holders: holder === undefined ? [] : [holder, ...others],
      since: call?.since ?? introducedAt(token),
      remainingMs,
      fencingToken: call?.fencingToken,
      waiters: queues.reduce((sum, queue) => sum + queue.waiters, waiters - waitsHere),
      queue: this.#queueOf(record.queue, queues),
    };
  }

  #occupancyOf(key: string, token: string): Occupancy | undefined {
    return isTokenOf(this.#processId, token) ? this.#queues.occupancyUnder(key, token) : undefined;
  }

  #holderWith(key: string, holder: HolderRecord): LockHolder {
    const here = this.#occupancyOf(key, holder.token);
    return here === undefined ? holderWith(holder) : this.#callHere(here.call?.label);
  }

  /** How many wait for a key, and how long the first of them has waited. */
  waitersOf(
    key: string,
    { waiters, waitedMs }: SurveyedLock,
  ): { count: number; longestMs: number } {
    let [count, longestMs] = [waiters, waitedMs];
    for (const queue of this.#queues.queuesOf(key)) {
      // Without a lease, this process waits in the store for the first of its calls.
      const waitsHere = queue.occupancy === undefined && count > 0 && queue.waiters > 0;
      const [first] = queue.calls;
      count += queue.waiters - (waitsHere ? 1 : 0);
      if (first !== undefined) longestMs = Math.max(longestMs, this.#clock.now() - first.since);
    }
    return { count, longestMs };
  }

  /** Puts the calls that wait here in the place of this process; those of its lease come first. */
  #queueOf(records: readonly WaiterRecord[], queues: readonly LocalQueue[]): LockWaiter[] {
    const isHere = ({ token }: WaiterRecord): boolean => isTokenOf(this.#processId, token);
    const waits = records.filter(isHere).map(({ token }) => modeOf(token));
    const callsOf = (mode: HeldMode | undefined): LockWaiter[] =>
      queues.filter((queue) => queue.mode === mode).flatMap((queue) => this.#callsOf(queue));
    const first = queues
      .filter(({ mode }) => !waits.includes(mode))
      .flatMap((it) => callsOf(it.mode));
    const inStore = records.flatMap((record) =>
      isHere(record) ? callsOf(modeOf(record.token)) : waiterOf(record),
    );
    return [...first, ...inStore].slice(0, MOST_WAITING);
  }

  #callsOf(queue: LocalQueue): LockWaiter[] {
    const calls: LockWaiter[] = [];
    for (const { options, since } of queue.calls) {
      if (calls.length === MOST_WAITING) break;
      calls.push({ ...this.#callHere(options.label), waitedMs: this.#clock.now() - since });
    }
    return calls;
  }

  #callHere(label: string | undefined): LockHolder {
    return { processId: this.#processId, host: hostname(), pid: process.pid, label };
  }
}

/** @returns nothing for what is no token of ours */
function waiterOf(record: WaiterRecord): LockWaiter[] {
  if (processIdOf(record.token) === undefined) return [];
  return [{ ...holderWith(record), waitedMs: record.waitedMs }];
}
