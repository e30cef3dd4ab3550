import { callable, type OptionTable } from '../../core/option.js';
import { ADAPTER_OPTIONS } from '../../transactions/orm/adapter-options.js';

/** What `lockAwareDataSource` may be told about a data source. */
export interface LockAwareDataSourceOptions {
  /** Tells several data sources apart, in messages and for `fence.connections`. @default 'default' */
  readonly connectionName?: string;
  /**
   * The function of this name from typeorm-transactional, if its `@Transactional` opens the transactions. A transaction
   * that is restarted then has hooks of its own in each run, so that `runOnTransactionCommit` of a run that was rolled
   * back does not fire. Without this function, such a transaction is not restarted.
   */
  runInTransaction?(work: () => Promise<unknown>, options: object): Promise<unknown>;
}

export const OPTIONS: OptionTable<LockAwareDataSourceOptions> = {
  connectionName: ADAPTER_OPTIONS.connectionName,
  runInTransaction: { check: callable },
};
