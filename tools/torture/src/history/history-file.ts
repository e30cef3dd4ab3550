import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';

/** An entry of a history whose kinds of entries, and what they tell, are the members of `Kinds`. */
export type EntryOf<Kinds, Kind extends keyof Kinds = keyof Kinds> = {
  [K in Kind]: { readonly kind: K; readonly at: number } & Kinds[K];
}[Kind];

/**
 * The entries of several processes in one file. Each entry is written at once, so that what a killed process saw is not
 * lost.
 */
export class HistoryFile<Kinds> {
  readonly #file: number;

  constructor(readonly path: string) {
    this.#file = openSync(path, 'a');
  }

  note<Kind extends keyof Kinds>(kind: Kind, told: Kinds[Kind], at = monotonicMs()): void {
    writeSync(this.#file, `${JSON.stringify({ kind, at, ...told })}\n`);
  }

  /** The entries in the order of their times. */
  read(): EntryOf<Kinds>[] {
    return readFileSync(this.path, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as EntryOf<Kinds>)
      .sort((a, b) => a.at - b.at);
  }

  close(): void {
    closeSync(this.#file);
  }
}

/** Milliseconds of CLOCK_MONOTONIC, which on Linux is one clock for all processes of the machine. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000n) / 1_000;
}
