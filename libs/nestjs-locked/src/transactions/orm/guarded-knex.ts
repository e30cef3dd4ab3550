import type { Writable } from 'node:stream';
import { ambientCoordinator } from '../scope/ambient-coordinator.js';
import type { NoteAnswer } from '../scope/watched-commit.js';
import { noteKnexConnection } from './broken-connection.js';
import type { Ask } from './guarded-client.js';
import { noteSeen } from './seen-commits.js';
import { textOf } from './statement-text.js';
import { isRolledBack } from './sure-rollback.js';

type Send = (connection: unknown, statement: unknown, ...rest: unknown[]) => Promise<unknown>;

/** The client of a Knex transaction; a nested transaction has its own. */
interface KnexClient {
  query: Send;
  stream: Send;
  transaction: (container: (nested: KnexTransaction) => unknown, ...rest: unknown[]) => unknown;
}

interface KnexTransaction {
  readonly client: KnexClient;
  /** Knex refuses statements after its COMMIT or ROLLBACK was sent. */
  readonly isCompleted: () => boolean;
  /** The outer transaction of a savepoint. */
  readonly parentTransaction?: object;
}

/** Only on MySQL; on PostgreSQL, the client of node-postgres is watched. */
export function isKnexOnMySql(tx: object): tx is KnexTransaction {
  const { client, isCompleted } = tx as {
    readonly client?: { readonly dialect?: unknown; readonly transacting?: unknown };
    readonly isCompleted?: unknown;
  };
  const isTransaction = client?.transacting === true && typeof isCompleted === 'function';
  return isTransaction && client.dialect === 'mysql';
}

/**
 * Makes a Knex transaction and its nested ones ask before each statement, and shows the COMMIT to its scope, because
 * `commit()` of Knex resolves even if the COMMIT failed.
 */
export function guardKnex(tx: KnexTransaction, ask: Ask): void {
  if (tx.parentTransaction === undefined) noteSeen(tx);
  guardClient(tx.client, tx, ask);
}

/** @param root the transaction; a nested one is a savepoint in it */
function guardClient(client: KnexClient, root: KnexTransaction, ask: Ask): void {
  const { query, stream, transaction } = client;
  const asking =
    (send: Send): Send =>
    async (connection, statement, ...rest) => {
      noteKnexConnection(root, connection);
      if (root.isCompleted()) return send.call(client, connection, statement, ...rest); // refused
      let noteAnswer: NoteAnswer | undefined;
      try {
        noteAnswer = asked(root, ask, textOf(statement));
      } catch (refused) {
        await leaveNothingOpen(client, root, connection);
        if (send === stream) (rest[0] as Writable).destroy(refused as Error); // its reader
        throw refused;
      }
      const answer = send.call(client, connection, statement, ...rest);
      if (noteAnswer) answer.then(() => noteAnswer(undefined), noteAnswer); // before Knex
      return answer;
    };
  client.query = asking(query);
  client.stream = asking(stream);
  client.transaction = (container, ...rest) => {
    const guarded = (nested: KnexTransaction): unknown => {
      guardClient(nested.client, root, ask);
      return container(nested);
    };
    return transaction.call(client, guarded, ...rest);
  };
}

/**
 * @returns the callback for the answer, if it is the COMMIT
 * @throws if the statement must not be sent; the scope then knows whether it was the COMMIT
 */
function asked(root: KnexTransaction, ask: Ask, sql: string | undefined): NoteAnswer | undefined {
  const coordinator = ambientCoordinator();
  if (sql === undefined || coordinator.endedHere(root) === undefined) {
    ask(sql);
    return undefined;
  }
  coordinator.sending(root, sql, undefined, true);
  ask(sql);
  return coordinator.sending(root, sql);
}

/**
 * Ends the transaction after Knex's own COMMIT or ROLLBACK was refused: Knex sends no other, and would release the
 * connection with the transaction open, which the next transaction on it would commit too.
 */
async function leaveNothingOpen(
  client: KnexClient,
  root: KnexTransaction,
  connection: unknown,
): Promise<void> {
  await Promise.resolve(); // completed after Knex has called `query`
  if (!root.isCompleted()) return;
  const { query } = Object.getPrototypeOf(client) as KnexClient; // the transaction's own would refuse it now
  if (await isRolledBack(query.call(client, connection, 'ROLLBACK'))) return;
  (connection as { destroy?: () => void }).destroy?.();
}
