import { LEAST_FIRST_LEASE_MS } from '../option-tables.js';
import type { ResolvedLockOptions } from '../resolved.options.js';
import { templateOf } from '../template-of.js';
import { HoldLengths } from './hold-lengths.js';
import type { StallWatch } from './stall-watch.js';

/** Keys that are usually held for longer than this get the whole lease at once. */
const SHORT_HOLD_MS = 1_000;

/** A lease is renewed after a third, so that a stall may last for two thirds of it. Twice that, to be safe. */
const STALLS = 4;

/**
 * How long the first lease of a hold is, until it is renewed to its whole length. If the process dies before that, the
 * key is free so much sooner.
 *
 * A learned one follows from the longest stall of the processes, and not from how long keys are held: the watchdog
 * renews whatever is held, and only a stall keeps it from that. Long holds meet more stalls and have more to lose, so
 * keys that are usually held for long have the whole lease from the beginning.
 */
export class FirstLeases {
  readonly #stalls: StallWatch;
  readonly #holds = new HoldLengths();

  constructor(stalls: StallWatch) {
    this.#stalls = stalls;
  }

  /** @returns whole milliseconds; Infinity if it is to be the whole lease */
  lengthMs(
    key: string,
    { firstLeaseMs, template }: Pick<ResolvedLockOptions, 'firstLeaseMs' | 'template'>,
  ): number {
    if (firstLeaseMs !== 'learned') return firstLeaseMs;
    this.#stalls.start();
    const typicalMs = this.#holds.typicalMs(templateOf(key, template), this.#stalls.hour);
    const { longestMs } = this.#stalls;
    if (typicalMs === undefined || typicalMs > SHORT_HOLD_MS || longestMs === undefined)
      return Infinity;
    return Math.max(LEAST_FIRST_LEASE_MS, Math.ceil(STALLS * longestMs));
  }

  /** Called when a hold has ended that may have a learned first lease. */
  held(template: string, ms: number): void {
    this.#holds.note(template, ms, this.#stalls.hour);
  }
}
