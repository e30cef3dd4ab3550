import { ambientCoordinator } from '../scope/ambient-coordinator.js';
import { dialectOf } from '../sql/session-of.js';
import { endingIn } from '../sql/transaction-endings.js';
import { endingOn } from './guarded-runner.js';
import { type InterceptableClient, interceptQueries } from './intercepted-queries.js';
import { noteSeen } from './seen-commits.js';
import { textOf } from './statement-text.js';

/** A query runner of TypeORM: it sends its COMMIT like any other statement. */
interface RunsStatements {
  /** Its connection, once it has one. */
  readonly databaseConnection?: Partial<InterceptableClient>;
  /** It refuses statements then, and sends none. */
  readonly isReleased?: unknown;
  query: (sql: string, ...rest: unknown[]) => Promise<unknown>;
}

const watched = new WeakSet<RunsStatements>();

/** TypeORM's names of the drivers whose query runner commits by the plain statement, and in no other way. */
const COMMITS_BY_STATEMENT: readonly unknown[] = ['postgres', 'mysql', 'mariadb'];

interface MaybeEntityManager {
  readonly connection?: { readonly options?: { readonly type?: unknown } };
  readonly queryRunner?: RunsStatements;
}

/**
 * Shows the statements that end this transaction to its scope, if it is one whose statements can be seen. A guard that
 * may refuse statements has to wrap the query runner after this, because a refused statement was not sent.
 *
 * @param tx what stands for the transaction: TypeORM's EntityManager
 */
export function watchCommit(tx: object): void {
  const { connection, queryRunner } = tx as MaybeEntityManager;
  const type = connection?.options?.type;
  if (queryRunner === undefined || !COMMITS_BY_STATEMENT.includes(type)) return;
  const dialect = dialectOf(type);
  noteSeen(tx);
  if (watched.has(queryRunner)) return; // it can have several transactions, one after the other
  watched.add(queryRunner);
  const query = queryRunner.query.bind(queryRunner);
  // Not async: every statement passes here, and promises are not free.
  queryRunner.query = (sql, ...rest) => {
    if (queryRunner.isReleased === true || endingIn(sql, dialect) === undefined) {
      return query(sql, ...rest);
    }
    // Subscribers may send statements of their own around it.
    const send = (): Promise<unknown> => endingOn(queryRunner, () => query(sql, ...rest));
    return shown(tx, sql, () => (type === 'postgres' ? send() : watchingAgain(tx, sql, send)));
  };
}

async function shown(tx: object, sql: string, send: () => Promise<unknown>): Promise<unknown> {
  const noteAnswer = ambientCoordinator().sending(tx, sql);
  try {
    const answer = await send();
    noteAnswer?.(undefined);
    return answer;
  } catch (error) {
    noteAnswer?.(error);
    throw error;
  }
}

/**
 * Between the query runner and its connection run subscribers (`beforeQuery`), in which a lock may be lost. The clients
 * of node-postgres are watched by `ClientWatch`.
 */
async function watchingAgain(
  tx: object,
  sql: string,
  send: () => Promise<unknown>,
): Promise<unknown> {
  const { databaseConnection: connection } = (tx as MaybeEntityManager).queryRunner ?? {};
  if (typeof connection?.query !== 'function') return send();
  const { stop } = interceptQueries(connection as InterceptableClient, (args, pass) => {
    if (textOf(args[0]) === sql) ambientCoordinator().sending(tx, sql);
    return pass(args);
  });
  try {
    return await send();
  } finally {
    stop();
  }
}
