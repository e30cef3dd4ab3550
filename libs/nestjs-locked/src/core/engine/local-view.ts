import { hostname } from 'node:os';
import type { LockHolder, LockInfo, LockWaiter } from '../lock-info.js';
import type { LocalQueue } from '../queue/local-queue.js';
import type { QueuesByKey } from '../queue/queues-by-key.js';
import { introducedAt, isTokenOf, leaseIdOf } from '../store/lease-token.js';
import {
  holderOf,
  type LockRecord,
  type SurveyedLock,
  type WaiterRecord,
} from '../store/lock-inspector.js';
import { lockState } from '../store/lock-state.js';
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
    const occupancy = this.#queues.queueOf(key)?.occupancy;
    if (occupancy?.isHeld !== true) return undefined;
    return this.#callHere(occupancy.label);
  }

  /** The public form of what the store says about a key. */
  infoOf(record: LockRecord): LockInfo {
    const { key, value, remainingMs, waiters, waitsHere } = record;
    const queue = this.#queues.queueOf(key);
    const isOurs = isTokenOf(this.#processId, value) && queue?.occupancy !== undefined;
    return {
      key,
      state: lockState(value),
      leaseId: leaseIdOf(value),
      holder: isOurs ? this.#callHere(this.holderOf(key)?.label) : holderOf(record),
      since: introducedAt(value),
      remainingMs,
      fencingToken: isOurs ? queue.occupancy?.fencingToken : undefined,
      waiters: waiters - (waitsHere ? 1 : 0) + (queue?.waiters ?? 0),
      queue: this.#queueOf(record.queue, queue),
    };
  }

  /** How many wait for a key, and how long the first of them has waited. */
  waitersOf(
    key: string,
    { waiters, waitedMs }: SurveyedLock,
  ): { count: number; longestMs: number } {
    const queue = this.#queues.queueOf(key);
    if (queue === undefined) return { count: waiters, longestMs: waitedMs };
    // Without a lease, this process waits in the store for the first of its calls.
    const waitsHere = queue.occupancy === undefined && waiters > 0 && queue.waiters > 0;
    const [first] = queue.calls;
    return {
      count: waiters - (waitsHere ? 1 : 0) + queue.waiters,
      longestMs: Math.max(waitedMs, first === undefined ? 0 : this.#clock.now() - first.since),
    };
  }

  /** Puts the calls that wait here in the place of this process. */
  #queueOf(records: readonly WaiterRecord[], queue: LocalQueue | undefined): LockWaiter[] {
    const here = queue === undefined ? [] : this.#callsOf(queue);
    const isHere = ({ token }: WaiterRecord): boolean => isTokenOf(this.#processId, token);
    const inStore = records.flatMap((record) => (isHere(record) ? here : waiterOf(record)));
    return (records.some(isHere) ? inStore : [...here, ...inStore]).slice(0, MOST_WAITING);
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
  const holder = holderOf({ value: record.token, process: record.process });
  return holder === undefined ? [] : [{ ...holder, waitedMs: record.waitedMs }];
}
