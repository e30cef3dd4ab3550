/** What a job of the queue has. */
export interface ExportJob {
  readonly account: string;
  /** The text of `lock.detach`. */
  readonly lock: string;
}

/** The name of the queue. */
export const EXPORTS = 'exports';
