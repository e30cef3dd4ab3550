import { ambientCoordinator } from '../scope/ambient-coordinator.js';
import type { NoteAnswer } from '../scope/watched-commit.js';
import { isAnswered } from '../sql/sql-error.js';
import { type Ending, endingIn } from '../sql/transaction-endings.js';
import { closePgClient, isClosable } from './broken-connection.js';
import { callbackIn, isOwnQuery, type OwnQuery, type Query } from './carried-statements.js';
import { after } from './delayed-begin.js';
import { knownPgClient, type PgClient, statusOf } from './pg-client.js';
import { noteSeen } from './seen-commits.js';
import { textOf } from './statement-text.js';
import { isRolledBack } from './sure-rollback.js';

type WatchedClient = PgClient & { query: Query };

/**
 * Watches what is sent on the client of one transaction, if it is one of node-postgres: shows its scope the statements
 * that end it, and closes the connection if such a statement is not answered. The pool would hand it out again, and the
 * next transaction on it would commit both. For the same reason it rolls back itself where the COMMIT is refused: some
 * libraries give the connection back then without a ROLLBACK.
 */
export class ClientWatch {
  readonly #coordinator = ambientCoordinator();
  #client: WatchedClient | undefined;
  #tx: object | undefined;
  #stop: () => void = () => {};
  #rollBack: () => unknown = () => {};

  /** Undefined if none was seen. */
  get client(): PgClient | undefined {
    return this.#client;
  }

  /** The first client that is connected for the transaction is its own. */
  on(client: unknown): void {
    if (this.#client !== undefined || this.#tx !== undefined || !isWatchable(client)) return;
    this.#client = client;
    let isWatching = true; // of this client: another one may take its place
    const own = Object.getOwnPropertyDescriptor(client, 'query');
    const { query } = client;
    const watching: Query = (...args) => {
      const send = (sent: unknown[]): unknown => query.apply(client, sent);
      const ending = isWatching ? this.#endingIn(args) : undefined;
      if (ending !== undefined) return this.#end(ending, args, send);
      const late = isWatching ? this.#refusalNow() : undefined;
      return late === undefined ? send(args) : after(Promise.reject(late), () => send(args), args);
    };
    client.query = watching;
    this.#rollBack = () => query.call(client, 'ROLLBACK');
    this.#stop = () => {
      isWatching = false;
      if (client.query !== watching) return; // passes everything on from now
      if (own === undefined) Reflect.deleteProperty(client, 'query');
      else Object.defineProperty(client, 'query', own);
    };
  }

  /** The transaction is open on this client: one that was connected before it was for something else. */
  isOn(client: unknown): void {
    if (client === this.#client || this.#tx !== undefined || !isWatchable(client)) return;
    this.#stop();
    this.#client = undefined;
    this.on(client);
  }

  /** The transaction is open: what is connected from now on is not its own. @param tx what stands for it */
  opened(tx: object): void {
    this.on(knownPgClient(tx));
    this.#tx = tx;
    if (this.#client !== undefined) noteSeen(tx);
  }

  /** Closes the connection: its COMMIT is not answered. */
  async close(): Promise<void> {
    await closePgClient(this.#client);
  }

  /** The transaction is over, or was never opened. */
  stop(): void {
    this.#stop();
  }

  #refusalNow(): Error | undefined {
    try {
      if (this.#tx !== undefined) this.#coordinator.assertBeforeCommit(this.#tx);
      return undefined;
    } catch (error) {
      return error as Error;
    }
  }

  #endingIn([statement]: readonly unknown[]): Ending | undefined {
    const text = textOf(statement);
    return text === undefined ? undefined : endingIn(text, 'postgres');
  }

  #end(ending: Ending, args: unknown[], send: (args: unknown[]) => unknown): unknown {
    const [statement] = args;
    const text = textOf(statement) ?? '';
    const callback = callbackIn(args);
    const ended = this.#ended(ending, text, () => promised(args, send));
    if (isOwnQuery(statement)) {
      ended.then(
        () => statement.handleReadyForQuery(this.#client),
        (error: Error) => statement.handleError(error),
      );
      return statement;
    }
    if (callback === undefined) return ended;
    ended.then(
      (answer) => callback(null, answer),
      (error: Error) => callback(error),
    );
    return undefined;
  }

  async #ended(ending: Ending, text: string, send: () => Promise<unknown>): Promise<unknown> {
    let noteAnswer: NoteAnswer | undefined;
    try {
      noteAnswer = this.#tx && this.#coordinator.sending(this.#tx, text, statusOf(this.#client));
    } catch (error) {
      await this.#leaveNothingOpen();
      throw error;
    }
    let answer: unknown;
    try {
      answer = await send();
    } catch (error) {
      noteAnswer?.(error);
      if (ending === 'rollback' || !isAnswered(error)) await this.close();
      throw error;
    }
    this.#stop();
    noteAnswer?.(undefined, (answer as { command?: unknown } | undefined)?.command);
    return answer;
  }

  /** The COMMIT is refused. While the body runs, its next statement would take effect on its own after a ROLLBACK. */
  async #leaveNothingOpen(): Promise<void> {
    const isBodyDone =
      this.#tx !== undefined && this.#coordinator.endedHere(this.#tx) !== undefined;
    if (isBodyDone && (await isRolledBack(this.#rollBack()))) this.#stop();
    else await this.close();
  }
}

function isWatchable(client: unknown): client is WatchedClient {
  return isClosable(client) && typeof (client as Partial<WatchedClient>).query === 'function';
}

/** Sends in such a way that the answer comes to us first. */
function promised(args: unknown[], send: (args: unknown[]) => unknown): Promise<unknown> {
  const [statement, ...rest] = args;
  if (isOwnQuery(statement)) return promisedOwn(statement, () => send(args));
  const callback = callbackIn(args);
  if (callback === undefined) return send(args) as Promise<unknown>;
  return new Promise((resolve, reject) => {
    const own = (error: Error | null, result: unknown): void =>
      error === null || error === undefined ? resolve(result) : reject(error);
    if (args.includes(callback)) send(args.map((arg) => (arg === callback ? own : arg)));
    else send([{ ...(statement as object), callback: own }, ...rest]);
  });
}

/** The query itself is told nothing: that is left to whoever waits for the promise. */
function promisedOwn(query: OwnQuery, send: () => unknown): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const { handleReadyForQuery, handleError } = query;
    const restore = (): void => {
      query.handleReadyForQuery = handleReadyForQuery;
      query.handleError = handleError;
    };
    query.handleReadyForQuery = () => {
      restore();
      resolve((query as { readonly _result?: unknown })._result);
    };
    query.handleError = (error) => {
      restore();
      reject(error);
    };
    send();
  });
}
