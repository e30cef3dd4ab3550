import type { EntryKinds } from '../history/entry.js';
import type { EntryOf } from '../history/history-file.js';

export type SaleEntry<Kind extends keyof SaleKinds = keyof SaleKinds> = EntryOf<SaleKinds, Kind>;

/** How a call ended. */
export type SaleEnd = SaleEntry<'acknowledged' | 'refused' | 'unknown'>;

/** What happens to a call, and to a process. */
export interface SaleKinds extends Pick<EntryKinds, 'stalled' | 'killed' | 'exited'> {
  /** A call begins. If it is acknowledged, it has sold these numbers of pieces of each product. */
  asked: { readonly call: string; readonly pieces: Pieces; readonly style: string };
  /** Its transaction was answered, and has succeeded. */
  acknowledged: Run;
  /** It failed, and must not have written anything. */
  refused: FailedRun;
  /** It failed without an answer to its COMMIT, so either all of its last run was written, or nothing. */
  unknown: FailedRun;
  /** One of its locks was taken away before this run was committed, and its process had been told of that. */
  robbed: Run;
  /** A transaction of its own, for an audit row, has succeeded. */
  audited: Run;
  /** It has failed, and nothing but a fault of the database is an excuse. */
  unaudited: FailedRun;
  /** Its COMMIT was not answered for this long, not counting the time at which the process was stopped. */
  committing: { readonly call: string; readonly ms: number };
}

/** A run of the transaction of a call, whose name is unique across all processes. Runs count from 1. */
export interface Run {
  readonly call: string;
  readonly run: number;
}

interface FailedRun extends Run {
  readonly why: string;
}

export type Pieces = Readonly<Record<string, number>>;

/** A row that a call has written: one piece of a product, or a note written without a lock. */
export interface SaleRow extends Run {
  readonly product: string;
  /** True if the row was written by work that nobody has awaited. */
  readonly late: boolean;
}

/** The process of a call, with whose name that of the call begins. */
export function processOf({ call }: Pick<Run, 'call'>): string {
  return call.slice(0, call.indexOf('/'));
}
