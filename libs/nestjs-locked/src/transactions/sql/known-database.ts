import { SessionLimits } from './session-limits.js';

/** How many rows are remembered. */
const MOST_ROWS = 10_000;

/** Knowledge about a database from earlier transactions, which saves later ones queries. */
export class KnownDatabase {
  readonly limits = new SessionLimits();
  /** Whether it is MariaDB, which knows RETURNING and SET STATEMENT; MySQL does not. */
  isMariaDb = true;
  /** Whether a reader's transaction in it was read-only, so that readers ask before they claim. */
  hasReadOnly = false;
  readonly #rows = new Set<string>();

  /** Whether the key had a row in this fence table, which may be gone. */
  hadRow(table: string, key: string): boolean {
    return this.#rows.has(`${table} ${key}`);
  }

  sawRow(table: string, key: string): void {
    if (this.#rows.size >= MOST_ROWS) this.#rows.clear();
    this.#rows.add(`${table} ${key}`);
  }
}
