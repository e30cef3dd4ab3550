import { ambientCoordinator } from '../scope/ambient-coordinator.js';
import { isAnswered } from '../sql/sql-error.js';
import { type Ending, endingIn } from '../sql/transaction-endings.js';
import { closePgClient, isClosable } from './broken-connection.js';
import { callbackIn, isOwnQuery, type Query } from './carried-statements.js';
import { knownPgClient, type PgClient, statusOf } from './pg-client.js';
import { noteSeen } from './seen-commits.js';

type WatchedClient = PgClient & { query: Query };

/**
 * Watches what is sent on the client of one transaction, if it is one of node-postgres: shows its scope the statements
 * that end it, and closes the connection if such a statement is not answered. The pool would hand it out again, and the
 * next transaction on it would commit both.
 */
export class ClientWatch {
  readonly #coordinator = ambientCoordinator();
  #client: WatchedClient | undefined;
  #tx: object | undefined;
  #isWatching = false;
  #stop: () => void = () => {};

  /** Undefined if none was seen. */
  get client(): PgClient | undefined {
    return this.#client;
  }

  /** The first client that is connected for the transaction is its own. */
  on(client: unknown): void {
    if (this.#client !== undefined || this.#tx !== undefined || !isWatchable(client)) return;
    this.#client = client;
    this.#isWatching = true;
    const own = Object.getOwnPropertyDescriptor(client, 'query');
    const { query } = client;
    const watching: Query = (...args) => {
      const send = (sent: unknown[]): unknown => query.apply(client, sent);
      const ending = this.#isWatching ? this.#endingIn(args) : undefined;
      return ending === undefined ? send(args) : this.#end(ending, args, send);
    };
    client.query = watching;
    this.#stop = () => {
      this.#isWatching = false;
      if (client.query !== watching) return; // passes everything on from now
      if (own === undefined) Reflect.deleteProperty(client, 'query');
      else Object.defineProperty(client, 'query', own);
    };
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

  #endingIn([statement]: readonly unknown[]): Ending | undefined {
    if (isOwnQuery(statement)) return undefined;
    const text = typeof statement === 'string' ? statement : (statement as { text?: unknown }).text;
    return typeof text === 'string' ? endingIn(text) : undefined;
  }

  #end(ending: Ending, args: unknown[], send: (args: unknown[]) => unknown): unknown {
    const [statement] = args;
    const text = typeof statement === 'string' ? statement : (statement as { text: string }).text;
    const callback = callbackIn(args);
    const ended = this.#ended(ending, text, () => promised(args, send));
    if (callback === undefined) return ended;
    ended.then(
      (answer) => callback(null, answer),
      (error: Error) => callback(error),
    );
    return undefined;
  }

  async #ended(ending: Ending, text: string, send: () => Promise<unknown>): Promise<unknown> {
    const tx = this.#tx;
    const noteAnswer = tx && this.#coordinator.sending(tx, text, statusOf(this.#client));
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
}

function isWatchable(client: unknown): client is WatchedClient {
  return isClosable(client) && typeof (client as Partial<WatchedClient>).query === 'function';
}

/** Sends with a callback of our own, if the caller has given one. */
function promised(args: unknown[], send: (args: unknown[]) => unknown): Promise<unknown> {
  const callback = callbackIn(args);
  if (callback === undefined) return send(args) as Promise<unknown>;
  return new Promise((resolve, reject) => {
    const own = (error: Error | null, result: unknown): void =>
      error === null || error === undefined ? resolve(result) : reject(error);
    send(args.map((arg) => (arg === callback ? own : arg)));
  });
}
