import { hostname } from 'node:os';
import type { LockHolder, LockInfo } from '../lock-info.js';
import type { QueuesByKey } from '../queue/queues-by-key.js';
import { introducedAt, isTokenOf } from '../store/lease-token.js';
import { holderOf, type LockRecord } from '../store/lock-inspector.js';

/**
 * What this process knows better than the store: which of its own calls has a key now, and how many of them wait. The
 * store knows only the call for which the process requested the lease, and that the process waits.
 */
export class LocalView {
  readonly #queues: QueuesByKey;
  readonly #processId: string;

  constructor(queues: QueuesByKey, processId: string) {
    this.#queues = queues;
    this.#processId = processId;
  }

  /** The holder of a key if it is a call of this process. */
  holderOf(key: string): LockHolder | undefined {
    const occupancy = this.#queues.queueOf(key)?.occupancy;
    if (occupancy?.isHeld !== true) return undefined;
    const { label } = occupancy;
    return { processId: this.#processId, host: hostname(), pid: process.pid, label };
  }

  /** The public form of what the store says about a key. */
  infoOf(record: LockRecord): LockInfo {
    const { key, value, remainingMs, waiters, waitsHere } = record;
    const queue = this.#queues.queueOf(key);
    const isOurs = isTokenOf(this.#processId, value) && queue?.occupancy !== undefined;
    const holder = holderOf(record);
    return {
      key,
      holder: holder && isOurs ? { ...holder, label: this.holderOf(key)?.label } : holder,
      since: introducedAt(value),
      remainingMs,
      waiters: waiters - (waitsHere ? 1 : 0) + (queue?.waiters ?? 0),
    };
  }
}
