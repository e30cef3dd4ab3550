import { appendFileSync, readFileSync } from 'node:fs';

/** What a process saw. Times are milliseconds of the machine's monotonic clock, the same in all processes. */
export type Entry =
  /** A call asked for the key. */
  | { readonly kind: 'asked'; readonly at: number; readonly call: string; readonly key: string }
  /** The call was told that it holds the key. */
  | {
      readonly kind: 'held';
      readonly at: number;
      readonly call: string;
      readonly key: string;
      readonly token: number;
    }
  /** The hold was found to be valid for longer than was known before. */
  | { readonly kind: 'valid'; readonly at: number; readonly call: string; readonly until: number }
  /** The hold ended, or was found to be lost. */
  | {
      readonly kind: 'ended';
      readonly at: number;
      readonly call: string;
      readonly lost: string | undefined;
    }
  /** The call was refused. */
  | { readonly kind: 'refused'; readonly at: number; readonly call: string; readonly code: string }
  /** A process was killed: all its calls ended here. */
  | { readonly kind: 'killed'; readonly at: number; readonly process: string }
  /** Redis was emptied, or a lock key removed from it by force: nothing is promised until all have noticed. */
  | { readonly kind: 'wiped'; readonly at: number; readonly until: number };

/** CLOCK_MONOTONIC of Linux: one clock for all processes of the machine. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000n) / 1_000;
}

/** Appended at once, so that what a killed process saw is not lost with it. */
export class HistoryFile {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  append(entry: Entry): void {
    appendFileSync(this.#path, `${JSON.stringify(entry)}\n`);
  }

  read(): Entry[] {
    return readFileSync(this.#path, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Entry);
  }
}
