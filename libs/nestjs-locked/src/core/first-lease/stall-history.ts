import type { ObservedHour } from '../store/lock-store.js';

const HOUR_MS = 3_600_000;

/** How many different hours must have been observed, and how far back every stall counts in full. */
const DAY_HOURS = 24;

/** How far back a stall counts at all: half of its length. */
const WEEK_HOURS = 7 * DAY_HOURS;

/** The hour of a moment since 1970, as a whole number. */
export function hourOf(wallMs: number): number {
  return Math.floor(wallMs / HOUR_MS);
}

/** The longest stall of each hour of the last week. */
export class StallHistory {
  readonly #longest = new Map<number, number>();

  /** The hour counts as observed even if the stall is 0. */
  note(hour: number, ms: number): void {
    const longestMs = this.#longest.get(hour);
    if (longestMs === undefined) this.#forgetBefore(hour - WEEK_HOURS);
    if (ms > (longestMs ?? -1)) this.#longest.set(hour, ms);
  }

  #forgetBefore(oldest: number): void {
    for (const hour of this.#longest.keys()) if (hour <= oldest) this.#longest.delete(hour);
  }

  /** What was observed in this hour. */
  of(hour: number): ObservedHour {
    return [hour, Math.ceil(this.#longest.get(hour) ?? 0)];
  }

  /**
   * The longest stall that must be reckoned with: that of the last day, or half of that of the last week.
   * @returns undefined if less than a day of the last week was observed
   */
  longestMs(hour: number): number | undefined {
    let [observed, ofDay, ofWeek] = [0, 0, 0];
    for (const [then, ms] of this.#longest) {
      if (then <= hour - WEEK_HOURS || then > hour) continue;
      observed++;
      ofWeek = Math.max(ofWeek, ms);
      if (then > hour - DAY_HOURS) ofDay = Math.max(ofDay, ms);
    }
    return observed < DAY_HOURS ? undefined : Math.max(ofDay, ofWeek / 2);
  }
}
