import { closeSync, openSync, readFileSync, writeSync } from 'node:fs';
import type { Entry } from './entry.js';

/**
 * The entries of several processes in one file. Each entry is written at once, so that what a killed process saw is not
 * lost.
 */
export class HistoryFile {
  readonly #path: string;
  readonly #file: number;

  constructor(path: string) {
    this.#path = path;
    this.#file = openSync(path, 'a');
  }

  append(entry: Entry): void {
    writeSync(this.#file, `${JSON.stringify(entry)}\n`);
  }

  /** The entries in the order of their times. */
  read(): Entry[] {
    return readFileSync(this.#path, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Entry)
      .sort((a, b) => a.at - b.at);
  }

  close(): void {
    closeSync(this.#file);
  }
}
