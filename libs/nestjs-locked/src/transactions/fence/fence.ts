import type { TransactionalLocks } from '../../core/calls/open-transaction.js';
import {
  LockConfigError,
  LockFencedError,
  LockLostError,
  LockNotAcquiredError,
} from '../../core/lock.errors.js';
import type { Hold } from '../../core/queue/hold.js';
import { unreachable } from '../../core/runtime/unreachable.js';
import { systemClock } from '../../core/time/clock.js';
import {
  type ClaimOutcome,
  type DatabaseSession,
  LONGEST_MS,
  type TransactionBounds,
} from '../sql/database-session.js';
import { isMissingTable, sqlErrorCode } from '../sql/sql-error.js';

/**
 * The number of tries of a claim: our number is raised if the database is ahead, and others can raise theirs meanwhile.
 */
const MAX_CLAIMS = 3;
/** The shortest wait for a row, so that a single try does not fail because the table is being pruned. */
const MIN_WAIT_MS = 100;
/** How often a claim may lose to another one before its transaction fails. */
const MAX_CONFLICTS = 8;

/**
 * Another transaction has claimed a key since this one's snapshot was taken. No work was done, so this one can begin
 * again.
 */
export class ClaimConflict extends Error {
  override readonly name = 'ClaimConflict';
}

/**
 * Begins a transaction again while its claim conflicts with another one. @throws the database's error after the last
 * try
 */
export async function retryingConflicts<R>(begin: () => Promise<R>): Promise<R> {
  for (let conflicts = 0; ; conflicts++) {
    try {
      return await begin();
    } catch (error) {
      if (!(error instanceof ClaimConflict)) throw error;
      if (conflicts === MAX_CONFLICTS) throw error.cause;
    }
  }
}

/**
 * Claims the holds in the database: writes their fencing tokens into the fence table, whose rows stay locked until the
 * transaction has ended. A claim with a lower token than the table's is refused. Any other waits until the row is
 * unlocked, for the wait of its call or 100 ms: in the statement of sql/postgres-statements.ts or sql/mysql-session.ts,
 * where MySQL knows only whole seconds.
 *
 * Readers write nothing: they lock the row beside each other and compare its token, which is that of the last writer.
 *
 * After M. Kleppmann, "How to do distributed locking" (2016), with the check at the beginning of the transaction.
 *
 * @param holds in the order in which every transaction claims them
 * @throws LockFencedError if a newer holder was there · ClaimConflict · LockNotAcquiredError if the transaction of an
 * earlier holder is still open
 */
export async function claimFence(
  session: DatabaseSession,
  table: string,
  locks: TransactionalLocks,
  holds: readonly Hold[],
  bounds: TransactionBounds | undefined,
): Promise<void> {
  const startedAt = systemClock.now();
  const patienceMs = Math.min(...holds.map(({ callWaitMs }) => callWaitMs));
  for (let attempt = 1; ; attempt++) {
    const claims = holds.map(({ key, fencingToken, isShared }) => ({
      key: locks.fenceKey(key),
      fencingNumber: fencingToken,
      isShared,
    }));
    const leftMs = Math.max(MIN_WAIT_MS, Math.ceil(patienceMs - (systemClock.now() - startedAt)));
    const waitMs = leftMs === Infinity ? Infinity : Math.min(leftMs, LONGEST_MS);
    const outcome = await session.claim(table, claims, bounds, waitMs).catch((error: unknown) => {
      throw understood(error, table);
    });
    if (outcome.kind === 'claimed') return;
    if (outcome.kind === 'conflict')
      throw new ClaimConflict('The transaction has to begin again', {
        cause: understood(outcome.cause, table),
      });
    const holdOf = (fenceKey: string): Hold =>
      holds.find(({ key }) => locks.fenceKey(key) === fenceKey) as Hold;
    await overcome(outcome, holds, holdOf, attempt < MAX_CLAIMS, startedAt);
  }
}

/** SQLSTATE of PostgreSQL, error number of MySQL: a transaction that may not write. */
const READ_ONLY: readonly unknown[] = ['25006', 1792];

/** SQLSTATE of PostgreSQL; error numbers of MySQL for a schema, a table and a column. */
const DENIED: readonly unknown[] = ['42501', 1044, 1142, 1143];

function understood(error: unknown, table: string): unknown {
  if (isMissingTable(error)) return noTable(table, error);
  const code = sqlErrorCode(error);
  if (READ_ONLY.includes(code)) return readOnly(table, error);
  if (DENIED.includes(code)) return denied(table, error);
  return error;
}

function readOnly(table: string, cause: unknown): LockConfigError {
  return new LockConfigError(
    `The fence cannot be claimed in a read-only transaction, because the claim is written into '${table}': open the transaction for writing, or outside of the lock, or lock with mode: 'shared' what only reads`,
    undefined,
    { cause },
  );
}

function denied(table: string, cause: unknown): LockConfigError {
  const [schema] = table.includes('.') ? table.split('.') : [];
  const usage = schema === undefined ? '' : ` (PostgreSQL: and GRANT USAGE ON SCHEMA ${schema})`;
  return new LockConfigError(
    `The fence cannot be claimed, because the database user has no rights on its table: GRANT SELECT, INSERT, UPDATE ON ${table} to the user of the application${usage}`,
    undefined,
    { cause },
  );
}

function noTable(table: string, cause: unknown): LockConfigError {
  return new LockConfigError(
    `The fence table '${table}' does not exist in this database: create it with createFenceTable of nestjs-locked/transactions, or with the files in nestjs-locked/sql, or name the connections that have it in fence.connections`,
    undefined,
    { cause },
  );
}

/** Resolves a refusal if possible, so that the claim can be tried again, or throws. */
async function overcome(
  outcome: Exclude<ClaimOutcome, { kind: 'claimed' | 'conflict' }>,
  holds: readonly Hold[],
  holdOf: (fenceKey: string) => Hold,
  mayRaise: boolean,
  startedAt: number,
): Promise<void> {
  switch (outcome.kind) {
    case 'fenced': {
      // All at once, because the database has already refused every key whose number is behind.
      const raised = outcome.refused.map(({ key, newest }) => raise(holdOf(key), newest, mayRaise));
      await Promise.all(raised);
      return;
    }
    case 'blocked': {
      const keys = holds.map(({ key }) => key);
      const waitedMs = Math.round(systemClock.now() - startedAt);
      const error = new LockNotAcquiredError(
        `${named(keys)} ours, but the database still has the transaction of an earlier holder open, after ${waitedMs} ms`,
        keys[0] as string,
        waitedMs,
      );
      error.cause = outcome.cause;
      throw error;
    }
    default:
      return unreachable(outcome);
  }
}

/**
 * Continues our numbers after the database's if Redis confirms us as holder; Redis may have lost its numbers.
 * @throws LockFencedError if it is not us
 */
async function raise(hold: Hold, newest: number, mayRaise: boolean): Promise<void> {
  const fenced = new LockFencedError(
    `Lock '${hold.key}': the database has seen fencing token ${newest}, ours is ${hold.fencingToken}; a newer holder was there, nothing was written; run the call again, which takes the lock anew`,
    hold.key,
    hold.fencingToken,
    newest,
  );
  if (!mayRaise) throw fenced;
  try {
    await hold.raiseFence(newest);
  } catch (error) {
    throw error instanceof LockLostError ? fenced : error;
  }
}

/** The keys in a message; the database does not say for which of several rows it has waited. */
function named(keys: readonly string[]): string {
  const list = keys.map((key) => `'${key}'`).join(', ');
  return keys.length === 1 ? `Lock ${list} is` : `The locks ${list} are`;
}
