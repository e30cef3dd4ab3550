import { isObject } from './arguments.js';
import { invalidOption } from './lock.errors.js';
import { assertOptions, type Check, must, type OptionTable, withDefaults } from './option.js';

/**
 * What to do with a call that requests a lock inside an open transaction:
 *
 * - 'reject': LockInTransactionError on the first call, contended or not.
 * - 'restart': roll back, wait with no transaction open, then run the transaction again from its beginning with the
 *   lock held, even if the lock was free. The effect is that of a lock around the transaction. The body runs at least
 *   twice.
 * - 'join': wait inside the transaction, for at most half of its remaining time. What the transaction read before is
 *   not protected: it may be older than the lock.
 */
export type InsideTransaction = 'reject' | 'restart' | 'join';

/** Lets the database refuse a holder after a newer one has claimed, by a table of fencing tokens. */
export interface FenceOptions {
  /** The table, schema-qualified if necessary: `app.lock_fence`. @default 'lock_fence' */
  readonly table?: string;
  /**
   * The `connection` names (as given to the adapters, 'default' where none was given) whose database has the
   * table. @default all
   */
  readonly connections?: readonly string[];
}

/**
 * Time limits of a transaction under a lock, which the database enforces, in milliseconds; 0 = the database's own
 * setting. A stricter limit of the role or session stays in force.
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

/** The options of a lock service for transactions. They have no effect without an adapter for the ORM. */
export interface TransactionOptions {
  /** What happens when a call requests a lock inside an open transaction. @default 'reject' */
  readonly insideTransaction?: InsideTransaction;
  /**
   * Turns the fence on: `true`, or its options. The table must exist: `nestjs-locked/transactions` creates it. @default
   * off
   */
  readonly fence?: boolean | FenceOptions;
  /**
   * Lets PostgreSQL end the transaction of a paused holder before its lease ends. The limits are derived from the lease
   * unless given. MySQL and MariaDB have no limits for a single transaction. @default true with a fence, else false
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

const TABLE_NAME = /^[A-Za-z_][\w$]*(\.[A-Za-z_][\w$]*)?$/;
const limit = must(
  "whole milliseconds; 0 = the database's own setting",
  (value) => Number.isSafeInteger(value) && (value as number) >= 0,
);

export const FENCE_OPTIONS: OptionTable<FenceOptions> = {
  table: {
    default: 'lock_fence',
    check: must(
      'the plain name of a table, with or without a schema',
      (value) => typeof value === 'string' && TABLE_NAME.test(value),
    ),
    otherNames: ['tablename', 'name'],
    text: 'The table, schema-qualified if necessary',
  },
  connections: {
    shownDefault: 'all',
    check: must(
      'a list of connection names',
      (value) => Array.isArray(value) && value.every((name) => typeof name === 'string'),
    ),
    text: 'The names of the connections whose database has the table',
  },
};

const TIMEOUTS: OptionTable<TransactionTimeouts> = {
  idleMs: { shownDefault: 'from the lease', check: limit, text: 'Between two statements' },
  statementMs: { shownDefault: 'from the lease', check: limit, text: 'One statement' },
  lockMs: { shownDefault: 'as long as a statement', check: limit, text: 'One wait for a lock' },
  totalMs: { shownDefault: 'from `maxHoldMs`', check: limit, text: 'The whole transaction' },
};

/** A boolean, or an object of options. */
const switchOr =
  <Options>(table: OptionTable<Options>, example: string): Check =>
  (name, value) => {
    if (typeof value === 'boolean') return;
    if (!isObject(value)) {
      throw invalidOption(name, value, `must be true, false or ${example}`);
    }
    assertOptions(table, value as Partial<Options>, { prefix: `${name}.` });
  };

export const TRANSACTION_OPTIONS: OptionTable<TransactionOptions> = {
  insideTransaction: {
    default: 'reject',
    check: must("'reject', 'restart' or 'join'", (value) =>
      (['reject', 'restart', 'join'] as readonly unknown[]).includes(value),
    ),
    text: "What happens when a lock is requested inside an open transaction: `'reject'`, `'restart'` or `'join'`",
  },
  fence: {
    default: undefined,
    shownDefault: 'off',
    check: switchOr(FENCE_OPTIONS, "{ table: 'lock_fence' }"),
    text: '`true`, or `{ table, connections }`: the database refuses a holder after a newer one has claimed',
  },
  transactionTimeouts: {
    default: undefined,
    shownDefault: 'on with a `fence`',
    check: switchOr(TIMEOUTS, 'an object, such as { idleMs: 5000 }'),
    text: '`true` or values: PostgreSQL ends the transaction of a paused holder before its lease ends',
  },
};

/** @param options checked before */
export function resolveTransactionOptions(options: TransactionOptions): ResolvedTransactionOptions {
  const {
    insideTransaction,
    fence: wanted,
    transactionTimeouts,
  } = withDefaults(TRANSACTION_OPTIONS, options);
  const fence = resolveFence(wanted);
  const timeouts = resolveTimeouts(transactionTimeouts ?? fence !== undefined);
  return Object.freeze({ insideTransaction, fence, timeouts });
}

function resolveFence(fence: boolean | FenceOptions = false): ResolvedTransactionOptions['fence'] {
  if (fence === false) return undefined;
  const { table, connections } = withDefaults(FENCE_OPTIONS, fence === true ? {} : fence);
  return { table, connections };
}

function resolveTimeouts(timeouts: boolean | TransactionTimeouts): TransactionTimeouts | undefined {
  if (timeouts === false) return undefined;
  return withDefaults(TIMEOUTS, timeouts === true ? {} : timeouts);
}
