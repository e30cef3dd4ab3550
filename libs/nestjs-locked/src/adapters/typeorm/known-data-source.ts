import type { DataSource } from 'typeorm';
import { LockConfigError } from '../../core/lock.errors.js';
import type { LockAwareDataSourceOptions } from './lock-aware-data-source.options.js';

/** Marks lock-aware data sources, with the options in effect, and the objects made by lock-aware adapters. */
export const LOCK_AWARE = Symbol.for('nestjs-locked/LockAwareDataSource');

/** The options with which a data source was made lock-aware. */
interface Decided {
  readonly connectionName: string;
  readonly given: LockAwareDataSourceOptions;
}

/** @throws LockConfigError if it is lock-aware with other options */
export function isLockAware(dataSource: DataSource, given: LockAwareDataSourceOptions): boolean {
  if (!(LOCK_AWARE in dataSource)) return false;
  assertSameOptions(dataSource[LOCK_AWARE] as Decided, given);
  return true;
}

/** @returns the connection name in effect from now on */
export function markLockAware(dataSource: DataSource, given: LockAwareDataSourceOptions): string {
  const { connectionName = 'default' } = given;
  const decided: Decided = { connectionName, given };
  Object.defineProperty(dataSource, LOCK_AWARE, { value: decided });
  return connectionName;
}

/** @param dataSource a lock-aware one */
export function connectionNameOf(dataSource: DataSource): string {
  return (dataSource as unknown as { [LOCK_AWARE]: Decided })[LOCK_AWARE].connectionName;
}

/**
 * A fence for another connection name would never be claimed, and a `runInTransaction` given later would never be
 * called.
 * @throws LockConfigError if the data source is known under another name, or without a `runInTransaction`
 */
function assertSameOptions(
  { connectionName, given: first }: Decided,
  given: LockAwareDataSourceOptions,
): void {
  const { connectionName: name = connectionName } = given;
  if (name !== connectionName) {
    throw new LockConfigError(
      `lockAwareDataSource was given the name '${name}' for a data source that it knows as '${connectionName}': the first call decides; give connectionName: '${name}' there, or leave it out here`,
    );
  }
  // If connecting is retried, each attempt may bring its own, equivalent function.
  if (given.runInTransaction === undefined || first.runInTransaction !== undefined) return;
  throw new LockConfigError(
    `lockAwareDataSource was given runInTransaction for a data source that it knows without it: the first call decides; give it there, or leave it out here`,
  );
}
