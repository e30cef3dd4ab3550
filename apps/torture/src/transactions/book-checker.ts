import type { Pieces, SaleEntry, SaleRow } from './sales-history.js';

export interface Books {
  /** How many pieces of each product there were at the beginning. */
  readonly before: Pieces;
  /** What is left of them. */
  readonly after: Pieces;
  readonly rows: readonly SaleRow[];
}

export interface BookVerdict {
  readonly violations: readonly string[];
  readonly acknowledged: number;
  readonly unknown: number;
  /** Calls that failed, or during which the process was killed, by reason. */
  readonly refused: Readonly<Record<string, number>>;
}

/** A share of all calls. A lease that nobody releases makes some of them wait for as long as they are willing to. */
const MOST_IN_VAIN = 0.1;

/**
 * Compares what was acknowledged with what was written. An acknowledged call has all its rows, from its last run and
 * from no other. A refused call has none. A call whose outcome is unknown has all or nothing. The stock has lost as
 * many pieces as there are rows. And nearly every call gets its locks in the end.
 */
export function checkBooks(history: readonly SaleEntry[], books: Books): BookVerdict {
  const calls: string[] = [];
  const asked = new Map<string, Pieces>();
  const ends = new Map<string, Exclude<SaleEntry, { kind: 'asked' }>>();
  const refused: Record<string, number> = {};
  for (const entry of history) {
    if (entry.kind === 'asked') asked.set(entry.call, entry.pieces);
    else ends.set(entry.call, entry);
    if (entry.kind === 'refused') refused[entry.why] = (refused[entry.why] ?? 0) + 1;
  }

  const written = new Map<string, SaleRow[]>();
  for (const row of books.rows) {
    const rows = written.get(row.call) ?? [];
    rows.push(row);
    written.set(row.call, rows);
  }
  for (const call of written.keys()) {
    if (!asked.has(call)) calls.push(`${call} has rows, and was never asked for`);
  }
  for (const [call, pieces] of asked) {
    const rows = written.get(call) ?? [];
    calls.push(...violationsOf(call, pieces, ends.get(call), rows));
  }

  const violations: string[] = [];
  const sold = countBy(books.rows, ({ product }) => product);
  for (const [product, before] of Object.entries(books.before)) {
    const lost = before - (books.after[product] ?? 0);
    const rows = sold.get(product) ?? 0;
    if (lost !== rows) {
      violations.push(`${product}: ${lost} pieces are gone, ${rows} rows were written`);
    }
  }
  const inVain = refused['LOCK_NOT_ACQUIRED'] ?? 0;
  if (inVain > asked.size * MOST_IN_VAIN) {
    violations.push(`${inVain} of ${asked.size} calls have waited for their locks in vain`);
  }
  const kinds = countBy([...asked.keys()], (call) => ends.get(call)?.kind ?? 'killed');
  return {
    violations: [...violations, ...calls],
    acknowledged: kinds.get('acknowledged') ?? 0,
    unknown: (kinds.get('unknown') ?? 0) + (kinds.get('killed') ?? 0),
    refused,
  };
}

function violationsOf(
  call: string,
  pieces: Pieces,
  end: Exclude<SaleEntry, { kind: 'asked' }> | undefined,
  rows: readonly SaleRow[],
): string[] {
  const runs = new Set(rows.map(({ run }) => run));
  if (runs.size > 1) return [`${call} has rows of the runs ${[...runs].join(', ')}`];
  if (end !== undefined && rows.some(({ run }) => run !== end.run)) {
    return [`${call} has rows of run ${[...runs].join()}, its last run was ${end.run}`];
  }
  // Work that nobody awaited may have been in time for the last run, or have come after it.
  const whole = isWhole(
    pieces,
    rows.filter(({ late }) => !late),
  );
  const isNothing = rows.every(({ late }) => late);
  switch (end?.kind) {
    case 'acknowledged':
      return whole ? [] : [`${call} was acknowledged, and written by half: ${list(rows)}`];
    case 'refused':
      return isNothing ? [] : [`${call} was refused (${end.why}), and written: ${list(rows)}`];
    case 'unknown':
    case undefined:
      return whole || isNothing
        ? []
        : [`${call} has no answer, and is written by half: ${list(rows)}`];
  }
}

function isWhole(pieces: Pieces, rows: readonly SaleRow[]): boolean {
  const written = countBy(rows, ({ product }) => product);
  const products = new Set([...Object.keys(pieces), ...written.keys()]);
  return [...products].every((product) => (pieces[product] ?? 0) === (written.get(product) ?? 0));
}

function list(rows: readonly SaleRow[]): string {
  return JSON.stringify(Object.fromEntries(countBy(rows, ({ product }) => product)));
}

function countBy<T>(items: readonly T[], nameOf: (item: T) => string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const item of items) counts.set(nameOf(item), (counts.get(nameOf(item)) ?? 0) + 1);
  return counts;
}
