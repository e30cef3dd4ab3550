/** The upper edge of the first bucket; each further one is twice as wide, so that one ends at a second. */
const FIRST_MS = 1_000 / 1_024;

/** From a millisecond to 34 minutes; the last bucket has everything longer, too. */
const BUCKETS = 22;

/** With fewer holds than this, nothing is said about a template. */
const ENOUGH = 50;

/** Nineteen of twenty holds are no longer than what is typical. */
const TYPICAL_SHARE = 0.95;

/**
 * How long keys are usually held, by the template of the key. What is known counts half as much after every hour, so
 * that a change of the application is noticed.
 */
export class HoldLengths {
  readonly #counts = new Map<string, number[]>();
  /** The hour in which they were last halved. */
  #hour: number | undefined;

  /** @param hour now, as a whole number of hours */
  note(template: string, ms: number, hour: number): void {
    this.#age(hour);
    let counts = this.#counts.get(template);
    if (counts === undefined) {
      counts = new Array<number>(BUCKETS).fill(0);
      this.#counts.set(template, counts);
    }
    const i = ms <= FIRST_MS ? 0 : Math.min(Math.ceil(Math.log2(ms / FIRST_MS)), BUCKETS - 1);
    counts[i] = (counts[i] ?? 0) + 1;
  }

  /** @returns undefined if there were too few holds lately, Infinity if they are longer than is counted */
  typicalMs(template: string, hour: number): number | undefined {
    this.#age(hour);
    const counts = this.#counts.get(template) ?? [];
    const all = counts.reduce((sum, count) => sum + count, 0);
    if (all < ENOUGH) return undefined;
    let sum = 0;
    const i = counts.findIndex((count) => (sum += count) >= all * TYPICAL_SHARE);
    return i === BUCKETS - 1 ? Infinity : FIRST_MS * 2 ** i;
  }

  #age(hour: number): void {
    const hours = hour - (this.#hour ?? hour);
    this.#hour = hour;
    if (hours <= 0) return;
    for (const counts of this.#counts.values())
      counts.forEach((count, i) => (counts[i] = count / 2 ** hours));
  }
}
