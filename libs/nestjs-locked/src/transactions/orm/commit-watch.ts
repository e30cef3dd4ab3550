import { ambientCoordinator } from '../scope/ambient-coordinator.js';
import type { TransactionScope } from '../scope/transaction-scope.js';
import { dialectOf } from '../sql/session-of.js';
import { commitsByBeginning, type Ending, endingIn } from '../sql/transaction-endings.js';
import { isBroken } from './broken-connection.js';
import { isBusy, whenIdle } from './busy-connection.js';
import { callbackIn } from './carried-statements.js';
import { after } from './delayed-begin.js';
import { endingOn, isEndingHere } from './guarded-runner.js';
import { type InterceptableClient, interceptQueries } from './intercepted-queries.js';
import { KnownStatus } from './known-status.js';
import { noteSeen } from './seen-commits.js';
import { textOf } from './statement-text.js';
import { noteRollback } from './sure-rollback.js';

/** A query runner of TypeORM, which sends its COMMIT like any other statement. */
interface RunsStatements {
  /** Its connection, if it has one. */
  readonly databaseConnection?: Partial<InterceptableClient>;
  /** Whether it refuses statements and sends none. */
  readonly isReleased?: unknown;
  readonly isTransactionActive?: unknown;
  query: (sql: string, ...rest: unknown[]) => Promise<unknown>;
}

const watched = new WeakSet<RunsStatements>();

/** TypeORM's names of the drivers whose query runners commit only by the plain statement. */
const COMMITS_BY_STATEMENT: readonly unknown[] = ['postgres', 'mysql', 'mariadb'];

interface MaybeEntityManager {
  readonly connection?: { readonly options?: { readonly type?: unknown } };
  readonly queryRunner?: RunsStatements;
}

/**
 * Shows the statements that end this transaction to its scope, if they are visible. A guard that may refuse statements
 * must wrap the query runner after this, because a refused statement was not sent.
 *
 * @param tx the transaction object: TypeORM's EntityManager
 */
export function watchCommit(tx: object): void {
  const { connection, queryRunner } = tx as MaybeEntityManager;
  const type = connection?.options?.type;
  if (queryRunner === undefined || !COMMITS_BY_STATEMENT.includes(type)) return;
  const dialect = dialectOf(type);
  noteSeen(tx);
  if (watched.has(queryRunner)) return; // it can have several consecutive transactions
  watched.add(queryRunner);
  const query = queryRunner.query.bind(queryRunner);
  const status = new KnownStatus(dialect);
  // Not async: every statement passes here, and promises are not free.
  queryRunner.query = (sql, ...rest) => {
    const scope = ambientCoordinator().openScope(tx);
    const isLocked = scope?.isLocked === true;
    const begins = isLocked && dialect === 'mysql' && commitsByBeginning(sql);
    const ends = begins ? 'commit' : endingIn(sql, dialect);
    if (ends === undefined) {
      const send = (): Promise<unknown> => query(sql, ...rest);
      return isLocked && scope.isEnding ? ofHook(scope, queryRunner, status, send) : send();
    }
    // Subscribers may send their own statements around it.
    const send = async (): Promise<unknown> => {
      const answer = await endingOn(queryRunner, () => query(sql, ...rest));
      if (ends === 'rollback') noteRollback(queryRunner);
      return answer;
    };
    return isLocked ? shown(tx, queryRunner, { sql, ends, status }, send) : send();
  };
}

/** Sends a statement after the body that does not end the transaction. */
async function ofHook(
  scope: TransactionScope,
  { isTransactionActive }: RunsStatements,
  status: KnownStatus,
  send: () => Promise<unknown>,
): Promise<unknown> {
  if (isTransactionActive === true) scope.assertNotEndedByHook();
  return status.after(send);
}

/** A statement in flight that ends the transaction. */
interface Shown {
  readonly sql: string;
  readonly ends: Ending;
  readonly status: KnownStatus;
}

/**
 * Shows a statement when it reaches the connection, where it counts as sent: subscribers (`beforeQuery`) run between
 * the query runner and its connection, in which the lock or the connection may be lost, or a second transaction opened.
 */
async function shown(
  tx: object,
  queryRunner: RunsStatements,
  { sql, ends, status }: Shown,
  send: () => Promise<unknown>,
): Promise<unknown> {
  const coordinator = ambientCoordinator();
  const scope = coordinator.openScope(tx);
  const { databaseConnection: connection } = queryRunner;
  const isReached = typeof connection?.query === 'function';
  let noteAnswer = coordinator.sending(tx, sql, undefined, isReached);
  const interception =
    isReached &&
    interceptQueries(connection as InterceptableClient, (args, pass) => {
      if (textOf(args[0]) !== sql || !isEndingHere(queryRunner) || isBroken(connection)) {
        return pass(args);
      }
      const passOn = (): unknown => pass(toldOfAnswer(args, () => noteAnswer?.(undefined)));
      const look = (): void => {
        if (queryRunner.isReleased === true) scope?.assertNotReleased(sql);
        if (isBroken(connection)) return;
        noteAnswer = coordinator.sending(tx, sql, status.on(connection));
      };
      const mustWait = (): boolean => isBusy(connection) || status.mustBeAsked;
      if (scope === undefined || ends === 'rollback' || !mustWait()) {
        look();
        return passOn();
      }
      const turn = async (): Promise<void> => {
        do {
          await whenIdle(connection, pass, () => scope.waitsForTurn(sql));
          if (status.mustBeAsked) await status.ask(pass);
        } while (mustWait());
        look();
      };
      return after(turn(), passOn, args);
    });
  try {
    const answer = await send();
    noteAnswer?.(undefined);
    return answer;
  } catch (error) {
    noteAnswer?.(error);
    throw error;
  } finally {
    if (interception) interception.stop();
  }
}

/**
 * Observes the answer of mysql2 before the hooks (`afterQuery`) that run ahead of the query runner's own answer, whose
 * failures say nothing about the statement. A node-postgres client has its own watch.
 *
 * @param answered called first if it succeeded
 */
function toldOfAnswer(args: unknown[], answered: () => void): unknown[] {
  const callback = callbackIn(args);
  if (callback === undefined) return args;
  const own = (error: Error | null, result: unknown): void => {
    if (error === null || error === undefined) answered();
    callback(error, result);
  };
  return args.map((arg) => (arg === callback ? own : arg));
}
