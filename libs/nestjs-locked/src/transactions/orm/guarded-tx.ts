import { ambientCoordinator } from '../scope/ambient-coordinator.js';
import { watchCommit } from './commit-watch.js';
import { type Ask, guardedClient, isClient } from './guarded-client.js';
import { guardKnex, isKnexOnMySql } from './guarded-knex.js';
import { guardRunner, isGuardableRunner } from './guarded-runner.js';

/** The checks before a transaction sends a statement. */
export interface StatementGuard {
  /** @param sql the text of the statement, if visible @throws if it may not be sent */
  readonly assertTakes: (sql?: string) => void;
  /** Whether its own ROLLBACK can neither hit another transaction nor replace its COMMIT. */
  readonly mayRollBack: () => boolean;
}

/** A rollback of the whole transaction, which its owner must be able to send even after a failure. */
const ROLLBACK = /^\s*ROLLBACK\b(?!\s+TO\b)(?!\s+(?:WORK|TRANSACTION)\s+TO\b)[^;]*;?\s*$/i;

/** The objects through which transactions of known ORMs send statements. */
interface MaybeKnown {
  /** TypeORM. */
  readonly queryRunner?: unknown;
  /** Drizzle. */
  readonly session?: { client?: object };
  /** Kysely. */
  readonly withPlugin?: (plugin: object) => object;
  readonly getExecutor?: unknown;
}

/**
 * Makes a transaction ask before each statement, if its ORM is recognized: code may keep using a transaction after its
 * rollback, when its connection may have another user. Knex, Prisma and Sequelize refuse such statements themselves,
 * and so does MikroORM outside nested transactions. Knex on MySQL asks all the same, because its client is not watched.
 *
 * @param connection the object on which the transaction was opened; undefined if unknown
 * @returns the object to hand out instead of `tx`
 */
export function guardedTx(tx: object, connection: unknown, guard: StatementGuard): object {
  const { assertTakes } = guard;
  const { queryRunner, session, withPlugin, getExecutor } = tx as MaybeKnown;
  if (isGuardableRunner(queryRunner)) {
    watchCommit(tx);
    guardRunner(queryRunner, assertTakes);
    return tx;
  }
  if (typeof session?.client === 'object' || typeof session?.client === 'function') {
    const isShared =
      connection === undefined
        ? !isForOneUse(session.client)
        : (connection as MaybeKnown).session === session;
    if (!isShared) session.client = guardedClient(session.client, askingFor(guard));
    return tx;
  }
  if (typeof withPlugin === 'function' && typeof getExecutor === 'function') {
    return guardedKysely(withPlugin.call(tx, askingPlugin(assertTakes)), assertTakes);
  }
  if (isKnexOnMySql(tx)) {
    guardKnex(tx, askingFor(guard));
    return tx;
  }
  return isClient(tx) ? guardedClient(tx, askingFor(guard)) : tx;
}

/** Whether the running code may still roll the transaction back: code of the body may not after the body is done. */
export function mayRollBack(tx: object): boolean {
  const coordinator = ambientCoordinator();
  const scope = coordinator.openScope(tx);
  if (scope?.isLocked !== true || !scope.isEnding) return scope !== undefined;
  return coordinator.endedHere(tx) !== undefined;
}

/**
 * Whether it is a pooled client or a postgres.js transaction. A database on a single connection has no separate session
 * for a transaction.
 */
function isForOneUse(client: object): boolean {
  return typeof client === 'function' || 'release' in client;
}

/** Kysely lets plugins see every query before it is compiled. */
function askingPlugin(assertTakes: Ask): object {
  return {
    transformQuery: ({ node }: { node: unknown }): unknown => {
      assertTakes();
      return node;
    },
    transformResult: async ({ result }: { result: unknown }): Promise<unknown> => result,
  };
}

/** Guards compiled queries too, which are executed without the plugins. */
function guardedKysely(tx: { executeQuery?: unknown }, assertTakes: Ask): object {
  const executeQuery = tx.executeQuery as (...args: unknown[]) => Promise<unknown>;
  tx.executeQuery = async (...args: unknown[]) => {
    assertTakes();
    return executeQuery.apply(tx, args);
  };
  return tx;
}

/**
 * Lets one ROLLBACK of the transaction pass in any state, but none after its end, when its connection may be in another
 * transaction. A ROLLBACK TO a savepoint is an ordinary statement. A late one is refused instead of being answered as
 * successful, because the work to undo may have been committed.
 */
function askingFor({ assertTakes, mayRollBack }: StatementGuard): Ask {
  let isRolledBack = false;
  return (sql) => {
    if (sql === undefined || isRolledBack || !ROLLBACK.test(sql) || !mayRollBack()) {
      assertTakes(sql);
      isRolledBack = false; // without a lock, the body may have begun another one
      return;
    }
    isRolledBack = true;
    try {
      assertTakes(sql); // the body must not continue after its own rollback
    } catch {
      // it has failed and must end
    }
  };
}
