import { isKeptFrom } from './kept-keys.js';
import type { AuditRow, Pieces, SaleEnd, SaleEntry, SaleRow } from './sales-history.js';
import { LEASE_MS } from './sales-task.js';

export interface Books {
  /** How many pieces of each product there were at the beginning. */
  readonly before: Pieces;
  /** What is left of them. */
  readonly after: Pieces;
  readonly rows: readonly SaleRow[];
  readonly audits: readonly AuditRow[];
}

export interface BookVerdict {
  readonly violations: readonly string[];
  readonly acknowledged: number;
  readonly unknown: number;
  /** Calls that failed, or during which the process was killed, by reason. */
  readonly refused: Readonly<Record<string, number>>;
  /** How many calls sold in each way, and what else has happened. A case that never happened proves nothing. */
  readonly happened: Readonly<Record<string, number>>;
}

/** A way to sell in which this many calls were made must have sold something. */
const CALLS_OF_A_STYLE = 10;
/** This many calls that were refused because others had their locks prove as much as one that failed otherwise. */
const BUSY_CALLS = 10;

/** A COMMIT without an answer is given up at the end of the lease. */
const COMMIT_LIMIT_MS = LEASE_MS + 3_000;

/**
 * Calls may wait for as long as they are willing to behind others that do: this share of all, or this many. A machine
 * with other work makes so few calls that one key kept by a fault concerns a tenth of them, through others that wait.
 */
const IN_VAIN = { share: 0.1, calls: 20 };

/**
 * Compares what was acknowledged with what was written. An acknowledged call has all its rows, from its last run and
 * from no other. A refused call has none. A call whose outcome is unknown has all or nothing. The stock has lost as
 * many pieces as there are rows. And nearly every call gets its locks in the end, unless somebody keeps them.
 */
export function checkBooks(history: readonly SaleEntry[], books: Books): BookVerdict {
  const calls: string[] = [];
  const asked = new Map<string, Pieces>();
  const styles = new Map<string, string | undefined>();
  const ends = new Map<string, SaleEnd>();
  const refused: Record<string, number> = {};
  for (const entry of history) {
    if (entry.kind === 'asked') {
      asked.set(entry.call, entry.pieces);
      styles.set(entry.call, entry.style);
    } else if (isEnd(entry)) ends.set(entry.call, entry);
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
  const isKept = isKeptFrom(history);
  const inVain = history.filter((entry) => isInVain(entry) && !isKept(entry.call)).length;
  if (inVain > Math.max(asked.size * IN_VAIN.share, IN_VAIN.calls)) {
    violations.push(`${inVain} of ${asked.size} calls have waited for their locks in vain`);
  }
  const happened = countBy(history.filter(isCounted), nameOf(ends, styles));
  violations.push(
    ...history.flatMap((entry) => violationOf(entry, books, styles)),
    ...unsoldStyles(history, ends),
  );
  const kinds = countBy([...asked.keys()], (call) => ends.get(call)?.kind ?? 'killed');
  return {
    violations: [...violations, ...calls],
    acknowledged: kinds.get('acknowledged') ?? 0,
    unknown: (kinds.get('unknown') ?? 0) + (kinds.get('killed') ?? 0),
    refused,
    happened: Object.fromEntries(happened),
  };
}

function isInVain(entry: SaleEntry): boolean {
  return entry.kind === 'refused' && entry.why === 'LOCK_NOT_ACQUIRED';
}

function isEnd(entry: SaleEntry): entry is SaleEnd {
  return ['acknowledged', 'refused', 'unknown'].includes(entry.kind);
}

function isCounted({ kind }: SaleEntry): boolean {
  return ['asked', 'robbed', 'audited', 'unaudited'].includes(kind);
}

function nameOf(
  ends: ReadonlyMap<string, SaleEnd>,
  styles: ReadonlyMap<string, string | undefined>,
): (entry: SaleEntry) => string {
  return (entry) => {
    if (entry.kind === 'audited') return `audited, ${styles.get(entry.call)}`;
    if (entry.kind !== 'asked') return entry.kind;
    const isSold = ends.get(entry.call)?.kind === 'acknowledged';
    return `${entry.style}${isSold ? '' : ', not sold'}`;
  };
}

/** What is wrong with one event, whatever became of its call. */
function violationOf(
  entry: SaleEntry,
  { rows, audits }: Books,
  styles: ReadonlyMap<string, string | undefined>,
): string[] {
  const { call } = entry;
  const isOfRun = (run: number) => (row: AuditRow) => row.call === call && row.run === run;
  switch (entry.kind) {
    case 'robbed':
      if (!rows.some((row) => !row.late && isOfRun(entry.run)(row))) return [];
      return [`${call} was written although it had lost a lock before its COMMIT`];
    case 'audited':
      if (audits.some(isOfRun(entry.run))) return [];
      return [`the audit row of ${call} was acknowledged, and is not written`];
    case 'unaudited':
      return [`the audit row of ${call}, which asks for no lock, was refused: ${entry.why}`];
    case 'committing':
      // Code without locks waits as it does without the library.
      if (entry.ms <= COMMIT_LIMIT_MS || styles.get(call) === 'unlocked') return [];
      return [`the COMMIT of ${call} was not given up for ${entry.ms} ms`];
    case 'stood still':
      return []; // an excuse
    case 'asked':
    case 'acknowledged':
    case 'refused':
    case 'unknown':
      return []; // compared with the rows of the call
  }
}

function unsoldStyles(history: readonly SaleEntry[], ends: ReadonlyMap<string, SaleEnd>): string[] {
  const sold = new Set<string>();
  const unsold = new Map<string, number>();
  for (const entry of history) {
    if (entry.kind !== 'asked' || entry.style === undefined) continue;
    const end = ends.get(entry.call);
    if (end?.kind === 'acknowledged') sold.add(entry.style);
    const isBusy = end?.kind === 'refused' && end.why.endsWith('LOCK_NOT_ACQUIRED');
    unsold.set(entry.style, (unsold.get(entry.style) ?? 0) + (isBusy ? 1 : BUSY_CALLS));
  }
  return [...unsold]
    .filter(([style, weight]) => !sold.has(style) && weight >= CALLS_OF_A_STYLE * BUSY_CALLS)
    .map(([style]) => `no call of the style ${style} has sold anything`);
}

function violationsOf(
  call: string,
  pieces: Pieces,
  end: SaleEnd | undefined,
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
