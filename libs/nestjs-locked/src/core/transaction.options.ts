import { assertKnownOptions } from './known-options.js';
import { invalidOption } from './lock.errors.js';

/**
 * What to do with a call that asks for a lock inside an open transaction:
 *
 * - 'reject': LockInTransactionError on the first call, contended or not.
 * - 'restart': roll back, wait with no transaction open, and run the transaction again from its beginning with the
 *   lock held, even if it is free: the same as the lock around the transaction. The body runs twice or more.
 * - 'join': wait inside the transaction, for at most half of the time that it has left. What the transaction has read
 *   before that is not protected: it may be older than the lock.
 */
export type InsideTransaction = 'reject' | 'restart' | 'join';

/** The database refuses a holder that was paused past its lease, by a table of fencing tokens. */
export interface FenceOptions {
  /** The table, with its schema if need be: `app.lock_fence`. @default 'lock_fence' */
  readonly table?: string;
  /**
   * The `connection` names (as given to the adapters, 'default' where none was given) whose database has the
   * table. @default all
   */
  readonly connections?: readonly string[];
}

/**
 * How long the database allows a transaction under a lock to take. In milliseconds; 0 = as the database has it. A
 * stricter limit of the role or session stays in force.
 */
export interface TransactionTimeouts {
  /** Between two statements. @default from the lease: 8 s of 30 s */
  readonly idleMs?: number;
  /** One statement. @default from the lease: 10 s of 30 s */
  readonly statementMs?: number;
  /** One wait for a row or table lock. @default as long as a statement */
  readonly lockMs?: number;
  /** The whole transaction; PostgreSQL 17 and later. @default what is left of `maxHoldMs` */
  readonly totalMs?: number;
}

/** The options of a lock service that concern transactions. Without an adapter for the ORM they do nothing. */
export interface TransactionOptions {
  /** What a call does that asks for a lock inside an open transaction. @default 'reject' */
  readonly insideTransaction?: InsideTransaction;
  /**
   * `true`, or options, turn the fence on. The table must exist: `nestjs-locked/fence` makes it. @default off
   */
  readonly fence?: boolean | FenceOptions;
  /**
   * Lets PostgreSQL end a transaction whose holder is paused, before its lease ends. The limits are derived from the
   * lease, or given. MySQL and MariaDB have no limits for a single transaction. @default true with a fence, else false
   */
  readonly transactionTimeouts?: boolean | TransactionTimeouts;
}

/** Checked and complete. */
export interface ResolvedTransactionOptions {
  readonly insideTransaction: InsideTransaction;
  readonly fence: (Required<Pick<FenceOptions, 'table'>> & FenceOptions) | undefined;
  /** Undefined if they are off. */
  readonly timeouts: TransactionTimeouts | undefined;
}

const INSIDE_TRANSACTION: readonly unknown[] = ['reject', 'restart', 'join'];
const DEFAULT_TABLE = 'lock_fence';
const TABLE_NAME = /^[A-Za-z_][\w$]*(\.[A-Za-z_][\w$]*)?$/;
const FENCE_OPTIONS: Record<keyof FenceOptions, true> = { table: true, connections: true };
const TIMEOUTS: Record<keyof TransactionTimeouts, true> = {
  idleMs: true,
  statementMs: true,
  lockMs: true,
  totalMs: true,
};

/** @throws LockConfigError naming option, value and what is allowed */
export function resolveTransactionOptions(options: TransactionOptions): ResolvedTransactionOptions {
  assertInsideTransaction(options.insideTransaction);
  const fence = resolveFence(options.fence);
  return Object.freeze({
    insideTransaction: options.insideTransaction ?? 'reject',
    fence,
    timeouts: resolveTimeouts(options.transactionTimeouts ?? fence !== undefined),
  });
}

/** @throws LockConfigError */
export function assertInsideTransaction(value: unknown): void {
  if (value === undefined || INSIDE_TRANSACTION.includes(value)) return;
  throw invalidOption('insideTransaction', value, "must be 'reject', 'restart' or 'join'");
}

/** @throws LockConfigError */
export function assertTableName(table: unknown): asserts table is string {
  if (typeof table === 'string' && TABLE_NAME.test(table)) return;
  throw invalidOption(
    'fence.table',
    table,
    'must be the plain name of a table, with or without a schema',
  );
}

function resolveFence(fence: unknown): ResolvedTransactionOptions['fence'] {
  if (fence === undefined || fence === false) return undefined;
  if (fence === true) return { table: DEFAULT_TABLE };
  if (typeof fence !== 'object' || fence === null) {
    throw invalidOption('fence', fence, "must be true, false or { table: 'lock_fence' }");
  }
  assertKnownOptions(fence, FENCE_OPTIONS);
  const { table = DEFAULT_TABLE, connections } = fence as FenceOptions;
  assertTableName(table);
  if (connections === undefined) return { table };
  if (!Array.isArray(connections) || connections.some((name) => typeof name !== 'string')) {
    throw invalidOption('fence.connections', connections, 'must be a list of connection names');
  }
  return { table, connections };
}

function resolveTimeouts(timeouts: unknown): TransactionTimeouts | undefined {
  if (timeouts === false) return undefined;
  if (timeouts === true) return {};
  if (typeof timeouts !== 'object' || timeouts === null) {
    throw invalidOption('transactionTimeouts', timeouts, 'must be true, false or an object');
  }
  assertKnownOptions(timeouts, TIMEOUTS);
  for (const [name, value] of Object.entries(timeouts as TransactionTimeouts)) {
    if (value !== undefined && (!Number.isSafeInteger(value) || value < 0)) {
      throw invalidOption(
        `transactionTimeouts.${name}`,
        value,
        'must be whole milliseconds; 0 = as the database has it',
      );
    }
  }
  return { ...timeouts };
}
