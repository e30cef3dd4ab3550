import { ambientCoordinator } from '../scope/ambient-coordinator.js';
import { watchCommit } from './commit-watch.js';
import { type Ask, guardedClient, isClient } from './guarded-client.js';
import { guardKnex, isKnexOnMySql } from './guarded-knex.js';
import { guardRunner, isGuardableRunner } from './guarded-runner.js';

/** What is asked before a transaction sends a statement. */
export interface StatementGuard {
  /** @param sql the text of the statement, where it can be seen @throws if it may not be sent */
  readonly assertTakes: (sql?: string) => void;
  /** Whether its own ROLLBACK can neither meet another transaction, nor take the place of its COMMIT. */
  readonly mayRollBack: () => boolean;
}

/** Of the whole transaction: who has begun it has to be able to end it, also after a failure. */
const ROLLBACK = /^\s*ROLLBACK\b(?!\s+TO\b)(?!\s+(?:WORK|TRANSACTION)\s+TO\b)[^;]*;?\s*$/i;

/** What the transactions of the known ORMs send their statements through. */
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
 * Lets a transaction ask before each of its statements, if its ORM can be recognised by its shape: code may continue
 * working with a transaction that has been rolled back, whose connection may be somebody else's by then. Knex, Prisma
 * and Sequelize refuse such statements on their own, and MikroORM does outside of nested transactions. Knex on MySQL
 * asks all the same, because its client is not watched.
 *
 * @param connection what the transaction was opened on; undefined if that is not known
 * @returns what is to be handed out in place of `tx`
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

/** Whether the code that runs here may still roll the transaction back: its body may not once it is done. */
export function mayRollBack(tx: object): boolean {
  const coordinator = ambientCoordinator();
  const scope = coordinator.openScope(tx);
  if (scope?.isLocked !== true || !scope.isEnding) return scope !== undefined;
  return coordinator.endedHere(tx) !== undefined;
}

/**
 * A client from a pool, or a transaction of postgres.js. A database on a single connection has no session of its own
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

/** A query that was compiled before is executed without the plugins. */
function guardedKysely(tx: { executeQuery?: unknown }, assertTakes: Ask): object {
  const executeQuery = tx.executeQuery as (...args: unknown[]) => Promise<unknown>;
  tx.executeQuery = async (...args: unknown[]) => {
    assertTakes();
    return executeQuery.apply(tx, args);
  };
  return tx;
}

/**
 * Lets one ROLLBACK of the transaction through, in whatever state it is, and none that comes after its end: its
 * connection may be in somebody else's transaction by then. A ROLLBACK to a savepoint is a statement like any other. A
 * late one is refused, and not answered as if it had been done, because what it should undo may have been committed.
 */
function askingFor({ assertTakes, mayRollBack }: StatementGuard): Ask {
  let isRolledBack = false;
  return (sql) => {
    if (sql === undefined || isRolledBack || !ROLLBACK.test(sql) || !mayRollBack()) {
      assertTakes(sql);
      isRolledBack = false; // without a lock, a body may have begun another one
      return;
    }
    isRolledBack = true;
    try {
      assertTakes(sql); // the body must not continue after a rollback of its own
    } catch {
      // it has failed, and has to end
    }
  };
}
