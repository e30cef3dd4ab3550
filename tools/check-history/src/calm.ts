import type { HistoryLine } from './history.js';

/** When something was done to the server, or to a process. */
export class Calm {
  readonly #disturbances: readonly number[];
  readonly #absences: readonly number[];

  constructor(lines: readonly HistoryLine[]) {
    const timesOf = (...types: readonly HistoryLine['type'][]): number[] =>
      lines.filter(({ type }) => types.includes(type)).map(({ at }) => at);
    this.#disturbances = timesOf('disturbed', 'clock set back', 'clock set forward', 'lost data');
    this.#absences = timesOf('died', 'paused', 'continued', 'closed');
  }

  /** Whether nothing has disturbed the server between these times. */
  ofServer(from: number, until: number): boolean {
    return !this.#disturbances.some((at) => at > from && at < until);
  }

  /** The same, and every process went on as usual. */
  ofAll(from: number, until: number): boolean {
    return this.ofServer(from, until) && !this.#absences.some((at) => at > from && at < until);
  }
}
