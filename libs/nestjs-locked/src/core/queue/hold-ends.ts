import type { Hold } from './hold.js';

/** When the holds of one lease end by `maxHoldMs`, in order, so that thousands of them cost little. */
export class HoldEnds {
  readonly #holds: Hold[] = [];

  /** When the first of them ends, on the monotonic clock. */
  get first(): number {
    return this.#holds[0]?.endsAt ?? Infinity;
  }

  add(hold: Hold): void {
    if (hold.endsAt < Infinity) this.#holds.splice(this.#placeOf(hold.endsAt), 0, hold);
  }

  delete(hold: Hold): void {
    const index = this.#holds.indexOf(hold, this.#placeOf(hold.endsAt));
    if (index !== -1) this.#holds.splice(index, 1);
  }

  /** @returns those that have ended by then, which are removed */
  takeUntil(now: number): Hold[] {
    const next = this.#holds.findIndex(({ endsAt }) => endsAt > now);
    return this.#holds.splice(0, next === -1 ? Infinity : next);
  }

  /** The place of the first that ends then or later. */
  #placeOf(endsAt: number): number {
    let [from, to] = [0, this.#holds.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if ((this.#holds[middle] as Hold).endsAt < endsAt) from = middle + 1;
      else to = middle;
    }
    return from;
  }
}
