import type { LockHolder } from '../lock-info.js';
import { onOneLine } from '../runtime/quoted.js';
import { holderOf, type LockInspector } from '../store/lock-inspector.js';
import { atMost } from '../time/at-most.js';
import type { Clock } from '../time/clock.js';
import type { LocalView } from './local-view.js';

/** How long an error may be delayed to find out who has the lock. */
const LOOKUP_LIMIT_MS = 250;

/** Finds the holder of a lock for the error of a wait that has ended, without delaying other calls. */
export class HolderLookup {
  readonly #inspector: LockInspector;
  readonly #local: LocalView;
  readonly #clock: Clock;
  /** Pending queries by key, shared because waits for the same key often end together. */
  readonly #asked = new Map<string, Promise<LockHolder | undefined>>();

  constructor(inspector: LockInspector, local: LocalView, clock: Clock) {
    this.#inspector = inspector;
    this.#local = local;
    this.#clock = clock;
  }

  /**
   * Takes `LOOKUP_LIMIT_MS` at most, and never rejects. A holder in this process is known at once.
   *
   * @param leftMs how long the call may still take; 0 = the store is not asked
   * @returns undefined if the holder is unknown: it has just released the key, the store did not answer in time, or
   * another kind of client holds the key
   */
  async holderOf(key: string, leftMs: number): Promise<LockHolder | undefined> {
    const here = this.#local.holderOf(key);
    if (here !== undefined || leftMs <= 0) return here;
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
      return record && holderOf(record);
    } catch {
      return undefined; // the lock is busy all the same
    }
  }
}

/**
 * The holder's description in messages: `process 4711 on app-3, 'nightly report'`.
 * @param ownId if given, this process is marked
 */
export function describedHolder(
  { host, pid, processId, label }: LockHolder,
  ownId?: string,
): string {
  const process =
    host === undefined ? `process ${processId}` : `process ${pid} on ${onOneLine(host)}`;
  const advice =
    label === undefined ? '; inside lock.run(…), a call joins a lock that it has acquired' : '';
  const own = processId === ownId ? ` (this one${advice})` : '';
  return `${process}${own}${label === undefined ? '' : `, '${onOneLine(label)}'`}`;
}
