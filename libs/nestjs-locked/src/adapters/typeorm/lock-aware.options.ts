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

/** What a data source was made lock-aware with. */
export interface DecidedOptions {
  readonly connectionName: string;
  readonly given: LockAwareOptions;
}

/**
 * A fence for a name that the data source does not go by would be claimed by nobody, and nobody would call a
 * `runInTransaction` that comes later.
 * @throws LockConfigError if the data source is known by another name, or without a `runInTransaction`
 */
export function assertSameOptions(
  { connectionName, given: first }: DecidedOptions,
  given: LockAwareOptions,
): void {
  const { connectionName: name = connectionName } = given;
  if (name !== connectionName) {
    throw new LockConfigError(
      `lockAware was given the name '${name}' for a data source that it knows as '${connectionName}': the first call decides; give connectionName: '${name}' there, or leave it out here`,
    );
  }
  // Where connecting is tried again, each attempt may bring a function of its own, which does the same.
  if (given.runInTransaction === undefined || first.runInTransaction !== undefined) return;
  throw new LockConfigError(
    `lockAware was given runInTransaction for a data source that it knows without it: the first call decides; give it there, or leave it out here`,
  );
}
