import { isDeepStrictEqual } from 'node:util';
import { exitViolations } from '../checker/processes.js';
import { type Rule, type Violation, violationsOf } from '../checker/rules.js';
import { countBy, groupBy } from '../collections.js';
import { isKeptFrom } from './kept-keys.js';
import type { Pieces, Run, SaleEnd, SaleEntry, SaleRow } from './sales-history.js';
import { LEASE_MS } from './sales-task.js';

export interface Books {
  /** How many pieces of each product there were at the beginning. */
  readonly before: Pieces;
  /** What is left of them. */
  readonly after: Pieces;
  readonly rows: readonly SaleRow[];
  /** The rows that were written in transactions of their own. */
  readonly audits: readonly Run[];
}

export interface BookVerdict {
  readonly violations: readonly Violation[];
  readonly acknowledged: number;
  readonly unknown: number;
  /** Calls that failed, or during which the process was killed, by reason. */
  readonly refused: Readonly<Record<string, number>>;
  /** How many calls sold in each way, and what else has happened. A case that never happened proves nothing. */
  readonly happened: Readonly<Record<string, number>>;
}

/** A call, its end if it had one, and the rows that it has written. */
export interface Sale {
  readonly id: string;
  readonly asked: SaleEntry<'asked'>;
  readonly end: SaleEnd | undefined;
  readonly rows: readonly SaleRow[];
}

/** What the rules are applied to. */
interface Facts {
  readonly history: readonly SaleEntry[];
  readonly books: Books;
  readonly sales: ReadonlyMap<string, Sale>;
}

const RULES: Readonly<Record<string, Rule<Facts>>> = {
  stock: stockViolations,
  waits: waitViolations,
  losses: lossViolations,
  audits: auditViolations,
  commits: commitViolations,
  styles: styleViolations,
  processes: processViolations,
  runs: runViolations,
  books: bookViolations,
};

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

/** Compares what was acknowledged with what was written. */
export function checkBooks(history: readonly SaleEntry[], books: Books): BookVerdict {
  const rows = groupBy(books.rows, ({ call }) => call);
  const ends = new Map(history.filter(isEnd).map((end) => [end.call, end]));
  const sales = new Map<string, Sale>();
  for (const asked of history) {
    if (asked.kind !== 'asked') continue;
    const { call: id } = asked;
    sales.set(id, { id, asked, end: ends.get(id), rows: rows.get(id) ?? [] });
  }
  const kinds = countBy(sales.values(), ({ end }) => end?.kind ?? 'unknown');
  return {
    violations: violationsOf(RULES, { history, books, sales }),
    acknowledged: kinds['acknowledged'] ?? 0,
    unknown: kinds['unknown'] ?? 0,
    refused: countBy(history, (entry) => (entry.kind === 'refused' ? entry.why : undefined)),
    happened: countBy(history, (entry) => nameOf(entry, sales)),
  };
}

function isEnd(entry: SaleEntry): entry is SaleEnd {
  return ['acknowledged', 'refused', 'unknown'].includes(entry.kind);
}

function nameOf(entry: SaleEntry, sales: Facts['sales']): string | undefined {
  const sale = 'call' in entry ? sales.get(entry.call) : undefined;
  if (entry.kind === 'audited') return `audited, ${sale?.asked.style}`;
  if (entry.kind === 'robbed' || entry.kind === 'unaudited') return entry.kind;
  if (entry.kind !== 'asked') return undefined;
  return `${entry.style}${sale?.end?.kind === 'acknowledged' ? '' : ', not sold'}`;
}

/** The stock has lost as many pieces as there are rows. */
function* stockViolations({ books }: Facts): Iterable<string> {
  const sold = countBy(books.rows, ({ product }) => product);
  for (const [product, before] of Object.entries(books.before)) {
    const lost = before - (books.after[product] ?? 0);
    const rows = sold[product] ?? 0;
    if (lost !== rows) yield `${product}: ${lost} pieces are gone, ${rows} rows were written`;
  }
}

/** Nearly every call gets its locks in the end, unless somebody keeps them. */
function* waitViolations({ history, sales }: Facts): Iterable<string> {
  const isKept = isKeptFrom(history, sales);
  const inVain = [...sales.values()].filter(
    (sale) => sale.end?.kind === 'refused' && sale.end.why === 'LOCK_NOT_ACQUIRED' && !isKept(sale),
  );
  if (inVain.length > Math.max(sales.size * IN_VAIN.share, IN_VAIN.calls)) {
    yield `${inVain.length} of ${sales.size} calls have waited for their locks in vain`;
  }
}

/** A run that has lost a lock before its COMMIT is not written. */
function* lossViolations({ history, books }: Facts): Iterable<string> {
  for (const entry of history) {
    if (entry.kind !== 'robbed' || !books.rows.some((row) => !row.late && isOf(entry)(row)))
      continue;
    yield `${entry.call} was written although it had lost a lock before its COMMIT`;
  }
}

/** Code that asks for no lock commits whatever becomes of the locks around it. */
function* auditViolations({ history, books }: Facts): Iterable<string> {
  for (const entry of history) {
    if (entry.kind === 'audited' && !books.audits.some(isOf(entry))) {
      yield `the audit row of ${entry.call} was acknowledged, and is not written`;
    } else if (entry.kind === 'unaudited') {
      yield `the audit row of ${entry.call}, which asks for no lock, was refused: ${entry.why}`;
    }
  }
}

function isOf({ call, run }: Run): (row: Run) => boolean {
  return (row) => row.call === call && row.run === run;
}

/** A COMMIT is given up. Code without locks waits as it does without the library. */
function* commitViolations({ history, sales }: Facts): Iterable<string> {
  for (const entry of history) {
    if (entry.kind !== 'committing' || entry.ms <= COMMIT_LIMIT_MS) continue;
    if (sales.get(entry.call)?.asked.style === 'unlocked') continue;
    yield `the COMMIT of ${entry.call} was not given up for ${entry.ms} ms`;
  }
}

/** Every way to sell sells something. */
function* styleViolations({ sales }: Facts): Iterable<string> {
  for (const [style, its] of groupBy(sales.values(), ({ asked }) => asked.style)) {
    if (its.some(({ end }) => end?.kind === 'acknowledged')) continue;
    const isBusy = ({ end }: Sale): boolean =>
      end?.kind === 'refused' && end.why.endsWith('LOCK_NOT_ACQUIRED');
    const weight = its.reduce((sum, sale) => sum + (isBusy(sale) ? 1 : BUSY_CALLS), 0);
    if (weight >= CALLS_OF_A_STYLE * BUSY_CALLS)
      yield `no call of the style ${style} has sold anything`;
  }
}

function* processViolations({ history }: Facts): Iterable<string> {
  for (const entry of history) if (entry.kind === 'exited') yield* exitViolations(entry);
}

/** A call has rows of its last run, and of no other. */
function* runViolations({ sales }: Facts): Iterable<string> {
  for (const { id, end, rows } of sales.values()) {
    const runs = [...new Set(rows.map(({ run }) => run))];
    if (runs.length > 1) yield `${id} has rows of the runs ${runs.join(', ')}`;
    else if (isOfOldRun(end, rows))
      yield `${id} has rows of run ${runs[0]}, its last run was ${end?.run}`;
  }
}

function isOfOldRun(end: SaleEnd | undefined, rows: readonly SaleRow[]): boolean {
  return rows.some(({ run }) => run !== (end ?? rows[0])?.run);
}

/** An acknowledged call has all its rows. A refused call has none. A call whose outcome is unknown has all or none. */
function* bookViolations({ sales, books }: Facts): Iterable<string> {
  const strangers = new Set(books.rows.map(({ call }) => call).filter((call) => !sales.has(call)));
  for (const call of strangers) yield `${call} has rows, and was never asked for`;
  for (const { id, asked, end, rows } of sales.values()) {
    if (isOfOldRun(end, rows)) continue; // that is another rule
    // Work that nobody awaited may have been in time for the last run, or have come after it.
    const counted = rows.filter(({ late }) => !late);
    const isWhole = isDeepStrictEqual(piecesIn(counted), asked.pieces);
    const isNothing = counted.length === 0;
    const written = JSON.stringify(piecesIn(rows));
    if (end?.kind === 'acknowledged' && !isWhole) {
      yield `${id} was acknowledged, and written by half: ${written}`;
    } else if (end?.kind === 'refused' && !isNothing) {
      yield `${id} was refused (${end.why}), and written: ${written}`;
    } else if (!isWhole && !isNothing) {
      yield `${id} has no answer, and is written by half: ${written}`;
    }
  }
}

function piecesIn(rows: readonly SaleRow[]): Pieces {
  return countBy(rows, ({ product }) => product);
}
