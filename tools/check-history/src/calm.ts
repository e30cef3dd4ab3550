import type { HistoryLine, OfProcess } from './history.js';

/** When something was done to the server, or to a process. */
export class Calm {
  readonly #disturbances: readonly number[];
  readonly #absences: readonly { readonly at: number; readonly process: string }[];
  readonly #deaths: readonly number[];

  constructor(lines: readonly HistoryLine[]) {
    const timesOf = (...types: readonly HistoryLine['type'][]): number[] =>
      lines.filter(({ type }) => types.includes(type)).map(({ at }) => at);
    this.#disturbances = timesOf('disturbed', 'clock set back', 'clock set forward', 'lost data');
    this.#deaths = timesOf('died');
    this.#absences = lines.flatMap((line) => (isAbsence(line) ? [line] : []));
  }

  /** Whether nothing has disturbed the server between these times. */
  ofServer(from: number, until: number): boolean {
    return !this.#disturbances.some((at) => at > from && at < until);
  }

  /** The same, and every process went on as usual. */
  ofAll(from: number, until: number): boolean {
    return this.ofServer(from, until) && this.of(() => true, from, until);
  }

  /** How many processes had died by then. One that died without a word still has its place in the queue. */
  deadAt(until: number): number {
    return this.#deaths.filter((at) => at < until).length;
  }

  /** Whether these processes went on as usual. */
  of(isMeant: (process: string) => boolean, from: number, until: number): boolean {
    return !this.#absences.some(({ at, process }) => at > from && at < until && isMeant(process));
  }
}

function isAbsence(line: HistoryLine): line is OfProcess & { at: number } {
  return ['died', 'paused', 'continued', 'closed'].includes(line.type);
}
