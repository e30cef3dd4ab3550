import { assertIsFunction, assertIsReference, wrongArgument } from '../../core/arguments.js';
import { LockConfigError } from '../../core/lock.errors.js';
import { assertOptions, milliseconds, must, type OptionTable } from '../../core/option.js';
import { ambientCoordinator } from '../scope/ambient-coordinator.js';
import type { SqlDialect } from '../sql/database-session.js';
import { KnownDatabase } from '../sql/known-database.js';
import { ADAPTER_OPTIONS, poolOrSequelize } from './adapter-options.js';
import { delayBeginsOf } from './client-source.js';
import { openedHere } from './delayed-begin.js';
import { guardedTx, mayRollBack } from './guarded-tx.js';
import { assertAsynchronous } from './known-connection.js';
import { knownDepth } from './known-depth.js';
import { knownSession } from './known-session.js';
import { knownPgClient } from './pg-client.js';
import { type ErrorSource, guardClients } from './pg-clients.js';
import { runTransaction, type TransactionToRun } from './run-transaction.js';
import { endSavepointsWith } from './sequelize-savepoints.js';

/** How locks use the transactions of a database library. */
export interface TransactionsOptions<Tx extends object> {
  /** Distinguishes several databases in messages and in `fence.connections`. @default 'default' */
  readonly connectionName?: string;
  /** @default known for TypeORM, Prisma, Drizzle, Knex, Kysely and pg-promise */
  readonly dialect?: SqlDialect;
  /**
   * Runs a statement in the transaction. Placeholders are `$1`, `$2`, … for PostgreSQL, `?` for MySQL, each used once
   * and in order. @returns the rows, or the driver's result @default known for the same libraries, and for a client of
   * pg
   */
  readonly query?: (tx: Tx, sql: string, params: unknown[]) => Promise<unknown>;
  /**
   * The node-postgres pool from which the library takes its clients, or the Sequelize instance, which has its own kind
   * of pool. The claim is then sent together with BEGIN, and the gate needs no separate statement. The clients of a
   * pool get an 'error' listener, so that a time-out of the database does not end the process.
   * @default the claim takes a separate round trip, and so may the gate
   */
  readonly pool?: ErrorSource | Record<'connectionManager', object>;
  /**
   * `false` for a driver that fails when the database closes its connection during a transaction, such as postgres.js.
   * The time-outs that do so are then not armed (`idleMs`, `totalMs`). @default true
   */
  readonly survivesDisconnect?: boolean;
}

/** The options of one transaction. */
export interface TransactionGiven {
  /** The isolation level with which it is opened: `repeatable read`. @default the database is queried if it matters */
  readonly isolation?: string;
  /** The library's time limit, from its beginning. @default no limit */
  readonly timeoutMs?: number;
}

/**
 * Wraps the body of a transaction: call it when the transaction is open, and commit after it has resolved.
 *
 * @param tx the transaction object, as passed to `query`
 * @param body receives `tx`, if possible in a form that refuses statements after the end of the transaction
 */
export type WrapBody<Tx extends object, R> = (tx: Tx, body: (tx: Tx) => Promise<R>) => Promise<R>;

/**
 * Runs one transaction.
 *
 * @param open opens it, passes its body to `wrap`, commits or rolls back, and settles when that was answered. May be
 * called again to run the transaction from its beginning
 * @throws LockConfigError if `open` resolves without having called `wrap`, and any error of `open` and the locks
 */
export type RunTransaction<Tx extends object> = <R>(
  open: (wrap: WrapBody<Tx, R>) => Promise<R>,
  given?: TransactionGiven,
) => Promise<R>;

const OPTIONS: OptionTable<TransactionsOptions<never>> = {
  ...ADAPTER_OPTIONS,
  pool: { check: poolOrSequelize },
};

const OPTIONS_OF_ONE: OptionTable<TransactionGiven> = {
  isolation: {
    check: must(
      "the name of a level, such as 'repeatable read'",
      (value) => typeof value === 'string',
    ),
  },
  timeoutMs: { check: milliseconds },
};

function neverWrapped(): LockConfigError {
  return new LockConfigError(
    'A transaction was run without a call of wrap: nothing has guarded it, and it may be committed; pass its body to wrap(tx, body)',
  );
}

/**
 * Makes transactions of any library, or of your own code, known to the locks: a lock lasts until its transactions have
 * ended, and guards their commit. Call it once, where the database is set up, and open every transaction through the
 * returned function.
 *
 * @example
 * const run = lockAwareTransactions<PoolClient>({ dialect: 'postgres' });
 * await run(async (wrap) => {
 *   await client.query('BEGIN');
 *   const result = await wrap(client, (tx) => work(tx));
 *   await client.query('COMMIT');
 *   return result;
 * });
 * @throws LockConfigError
 */
export function lockAwareTransactions<Tx extends object>(
  options: TransactionsOptions<Tx> = {},
): RunTransaction<Tx> {
  if (typeof (options as { connect?: unknown } | null)?.connect === 'function') {
    throw wrongArgument(
      'lockAwareTransactions takes options',
      options,
      'pass a pool as one: { dialect, pool }',
    );
  }
  assertOptions(OPTIONS, options);
  const coordinator = ambientCoordinator(); // from now on, transactions are seen
  coordinator.sees(options.connectionName);
  const { connectionName, pool, survivesDisconnect = true } = options;
  const delaysBegin = pool !== undefined && delayBeginsOf(pool);
  if (pool !== undefined && 'on' in pool) guardClients(pool);
  const database = new KnownDatabase();
  /** Set if bodies receive a copy of the transaction object, by which the transaction cannot be recognized later. */
  let givesCopies = false;
  return <R>(open: (wrap: WrapBody<Tx, R>) => Promise<R>, given: TransactionGiven = {}) => {
    if (typeof open !== 'function') {
      throw wrongArgument(
        'A transaction is run by a function that opens it',
        open,
        'write run(async (wrap) => { … })',
      );
    }
    assertOptions(OPTIONS_OF_ONE, given);
    const transaction: TransactionToRun = {
      ...given,
      ...(connectionName === undefined ? {} : { connection: connectionName }),
      isNew: givesCopies,
      isAmbient: () => true,
      depth: knownDepth,
      session: (tx, client) => knownSession(tx, options, database, client),
      survivesDisconnect,
      delaysBegin,
    };
    return runTransaction<R>(transaction, async (enter) => {
      let isWrapped = false;
      const result = await open((given, body) => {
        assertIsFunction(body, 'wrap(tx, (tx) => …)');
        assertIsReference(given, 'wrap(tx, (tx) => …)');
        isWrapped = true;
        assertAsynchronous(given);
        openedHere()?.isOn(knownPgClient(given));
        const tx = guardedTx(given, undefined, {
          assertTakes: (sql) => coordinator.assertTakes(tx, sql),
          mayRollBack: () => mayRollBack(tx),
        }) as Tx;
        givesCopies ||= tx !== given;
        return enter(tx, () => {
          const scope = coordinator.openScope(tx);
          endSavepointsWith(tx, () => scope?.isLocked === true);
          return body(tx);
        });
      });
      if (!isWrapped) throw neverWrapped();
      return result;
    });
  };
}
