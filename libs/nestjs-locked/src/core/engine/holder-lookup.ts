import type { LockHolder } from '../lock-info.js';
import { lockInfo, type LockInspector } from '../store/lock-inspector.js';
import { atMost } from '../time/at-most.js';
import type { Clock } from '../time/clock.js';

/** How long an error may be delayed to find out who has the lock. */
const LOOKUP_LIMIT_MS = 250;

/** Finds the holder of a lock for the error of a wait that has ended, without delaying other calls. */
export class HolderLookup {
  readonly #inspector: LockInspector;
  readonly #clock: Clock;
  /** Pending queries by key, shared because waits for the same key often end together. */
  readonly #asked = new Map<string, Promise<LockHolder | undefined>>();

  constructor(inspector: LockInspector, clock: Clock) {
    this.#inspector = inspector;
    this.#clock = clock;
  }

  /**
   * Takes `LOOKUP_LIMIT_MS` at most, and never rejects.
   *
   * @param leftMs how long the call may still take
   * @returns undefined if the holder is unknown: it has just released the key, the store did not answer in time, or
   * another kind of client holds the key
   */
  async holderOf(key: string, leftMs: number): Promise<LockHolder | undefined> {
    if (leftMs <= 0) return undefined;
    return atMost(this.#clock, Math.min(leftMs, LOOKUP_LIMIT_MS), this.#lookUp(key));
  }

  #lookUp(key: string): Promise<LockHolder | undefined> {
    let asked = this.#asked.get(key);
    if (asked === undefined) {
      asked = this.#ask(key).finally(() => this.#asked.delete(key));
      this.#asked.set(key, asked);
    }
    return asked;
  }

  async #ask(key: string): Promise<LockHolder | undefined> {
    try {
      const record = await this.#inspector.inspect(key);
      return record === undefined ? undefined : lockInfo(record).holder;
    } catch {
      return undefined; // the lock is busy all the same
    }
  }
}

/** The holder's description in messages: `process 4711 on app-3, 'nightly report'`. */
export function describedHolder({ host, pid, processId, label }: LockHolder): string {
  const process = host === undefined ? `process ${processId}` : `process ${pid} on ${host}`;
  return label === undefined ? process : `${process}, '${label}'`;
}
