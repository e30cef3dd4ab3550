import type { DataSource } from 'typeorm';
import { LockConfigError } from '../../core/lock.errors.js';
import type { LockAwareDataSourceOptions } from './lock-aware-data-source.options.js';

/** Marks data sources that are lock-aware already, with what decided how, and what lock-aware adapters make. */
export const LOCK_AWARE = Symbol.for('nestjs-locked/LockAwareDataSource');

/** What a data source was made lock-aware with. */
interface Decided {
  readonly connectionName: string;
  readonly given: LockAwareDataSourceOptions;
}

/** @throws LockConfigError if it is, and was made so with other options */
export function isLockAware(dataSource: DataSource, given: LockAwareDataSourceOptions): boolean {
  if (!(LOCK_AWARE in dataSource)) return false;
  assertSameOptions(dataSource[LOCK_AWARE] as Decided, given);
  return true;
}

/** @returns the name of its connection, from now on */
export function markLockAware(dataSource: DataSource, given: LockAwareDataSourceOptions): string {
  const { connectionName = 'default' } = given;
  const decided: Decided = { connectionName, given };
  Object.defineProperty(dataSource, LOCK_AWARE, { value: decided });
  return connectionName;
}

/** @param dataSource is lock-aware */
export function connectionNameOf(dataSource: DataSource): string {
  return (dataSource as unknown as { [LOCK_AWARE]: Decided })[LOCK_AWARE].connectionName;
}

/**
 * A fence for a name that the data source does not go by would be claimed by nobody, and nobody would call a
 * `runInTransaction` that comes later.
 * @throws LockConfigError if the data source is known by another name, or without a `runInTransaction`
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
  // Where connecting is tried again, each attempt may bring a function of its own, which does the same.
  if (given.runInTransaction === undefined || first.runInTransaction !== undefined) return;
  throw new LockConfigError(
    `lockAwareDataSource was given runInTransaction for a data source that it knows without it: the first call decides; give it there, or leave it out here`,
  );
}
