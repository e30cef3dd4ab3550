/** What a process did. `call` is unique across all processes; `run` counts the runs of its transaction from 1. */
export type SaleEntry = SaleEvent & {
  /** When it was written down, in milliseconds since 1970. */
  readonly at?: number;
};

type SaleEvent =
  /** A call begins. If it is acknowledged, it has sold these numbers of pieces of each product. */
  | {
      readonly kind: 'asked';
      readonly call: string;
      readonly pieces: Pieces;
      /** Where its locks are asked for. */
      readonly style?: string;
    }
  /** Its transaction was answered, and has succeeded. */
  | { readonly kind: 'acknowledged'; readonly call: string; readonly run: number }
  /** It failed, and must not have written anything. */
  | {
      readonly kind: 'refused';
      readonly call: string;
      readonly run: number;
      readonly why: string;
    }
  /** It failed without an answer to its COMMIT, so either all of its last run was written, or nothing. */
  | { readonly kind: 'unknown'; readonly call: string; readonly run: number; readonly why: string }
  /** One of its locks was taken away before this run was committed, and its process had been told of that. */
  | { readonly kind: 'robbed'; readonly call: string; readonly run: number }
  /** A transaction of its own, for an audit row, has succeeded. */
  | { readonly kind: 'audited'; readonly call: string; readonly run: number }
  /** It has failed, and nothing but a fault of the database is an excuse. */
  | {
      readonly kind: 'unaudited';
      readonly call: string;
      readonly run: number;
      readonly why: string;
    }
  /** A process did nothing for so long, because it was stopped or had no processor. `call` begins all of its calls. */
  | { readonly kind: 'stood still'; readonly call: string; readonly ms: number }
  /** Its COMMIT was not answered for this long, not counting the time at which the process was stopped. */
  | { readonly kind: 'committing'; readonly call: string; readonly ms: number };

/** How a call ended. */
export type SaleEnd = Extract<SaleEntry, { kind: 'acknowledged' | 'refused' | 'unknown' }>;

export type Pieces = Readonly<Record<string, number>>;

/** A row that a call has written: one piece of a product, or a note written without a lock. */
export interface SaleRow {
  readonly call: string;
  readonly run: number;
  readonly product: string;
  /** True if the row was written by work that nobody has awaited. */
  readonly late: boolean;
}

/** A row that was written in a transaction of its own. */
export interface AuditRow {
  readonly call: string;
  readonly run: number;
}
