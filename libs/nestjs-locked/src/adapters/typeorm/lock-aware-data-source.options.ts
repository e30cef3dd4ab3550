import { callable, type OptionTable } from '../../core/option.js';
import { ADAPTER_OPTIONS } from '../../transactions/orm/adapter-options.js';

/** The options of `lockAwareDataSource`. */
export interface LockAwareDataSourceOptions {
  /** Distinguishes several data sources in messages and in `fence.connections`. @default 'default' */
  readonly connectionName?: string;
  /**
   * The function of this name from typeorm-transactional, if its `@Transactional` opens the transactions. Each run of a
   * restarted transaction then has its own hooks, so that `runOnTransactionCommit` of a run that was rolled back does
   * not fire. Without this function, such a transaction is not restarted.
   */
  runInTransaction?(work: () => Promise<unknown>, options: object): Promise<unknown>;
}

export const OPTIONS: OptionTable<LockAwareDataSourceOptions> = {
  connectionName: ADAPTER_OPTIONS.connectionName,
  runInTransaction: { check: callable },
};
