import { LockConfigError } from '../../core/lock.errors.js';
import { callable, type OptionChecks } from '../../core/option.js';
import { ADAPTER_CHECKS } from '../../transactions/orm/adapter-checks.js';

/** What `lockAware` may be told about a data source. */
export interface LockAwareOptions {
  /** Tells several data sources apart, in messages and for `fence.connections`. @default 'default' */
  readonly connectionName?: string;
  /**
   * The function of this name from typeorm-transactional, if its `@Transactional` opens the transactions. A transaction
   * that is restarted then has hooks of its own in each run, so that `runOnTransactionCommit` of a run that was rolled
   * back does not fire. Without this function, such a transaction is not restarted.
   */
  runInTransaction?(work: () => Promise<unknown>, options: object): Promise<unknown>;
}

export const CHECKS: OptionChecks<LockAwareOptions> = {
  connectionName: ADAPTER_CHECKS.connectionName,
  runInTransaction: callable,
};

/**
 * A fence for a name that the data source does not go by would be claimed by nobody.
 * @throws LockConfigError if it is known by another name
 */
export function assertSameName(known: unknown, given: string | undefined): void {
  if (given === undefined || given === known) return;
  throw new LockConfigError(
    `lockAware was given the name '${given}' for a data source that it knows as '${String(known)}': the first call decides; give connectionName: '${given}' there, or leave it out here`,
  );
}
