/** What a process did. `call` is unique across all processes; `run` counts the runs of its transaction from 1. */
export type SaleEntry =
  /** A call begins. If it is acknowledged, it has sold these numbers of pieces of each product. */
  | { readonly kind: 'asked'; readonly call: string; readonly pieces: Pieces }
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
  | { readonly kind: 'unknown'; readonly call: string; readonly run: number; readonly why: string };

export type Pieces = Readonly<Record<string, number>>;

/** A row that a call has written: one piece of a product, or a note written without a lock. */
export interface SaleRow {
  readonly call: string;
  readonly run: number;
  readonly product: string;
  /** True if the row was written by work that nobody has awaited. */
  readonly late: boolean;
}
