import { ambientCoordinator } from '../scope/ambient-coordinator.js';
import { holdsHere } from '../scope/guarding-hold.js';
import type { NoteAnswer } from '../scope/watched-commit.js';
import { isAnswered } from '../sql/sql-error.js';
import { type Ending, endingIn, placeOfCommit } from '../sql/transaction-endings.js';
import { closePgClient, isBroken, isClosable } from './broken-connection.js';
import { isBusy, whenIdle } from './busy-connection.js';
import { callbackIn, isOwnQuery, type OwnQuery } from './carried-statements.js';
import { after } from './delayed-begin.js';
import {
  type InterceptableClient,
  type Interception,
  interceptQueries,
} from './intercepted-queries.js';
import { type PgClient, statusOf } from './pg-client.js';
import { noteSeen, noteUnseen } from './seen-commits.js';
import { begins, textOf } from './statement-text.js';
import { isRolledBack } from './sure-rollback.js';

export type WatchableClient = PgClient & InterceptableClient;

/**
 * Watches what is sent on the client of one transaction, if it is one of node-postgres: shows its scope the statements
 * that end it, and closes the connection if such a statement is not answered. The pool would hand it out again, and the
 * next transaction on it would commit both. For the same reason it rolls back itself where the COMMIT is refused: some
 * libraries give the connection back then without a ROLLBACK.
 */
export class ClientWatch {
  readonly client: PgClient;
  readonly #coordinator = ambientCoordinator();
  readonly #interception: Interception;
  readonly #isInBody: () => boolean;
  #tx: object | undefined;
  /**
   * watching  it is in the transaction, as far as can be seen
   * undone    it was rolled back behind the body, perhaps by a hook: its COMMIT may come all the same
   * left      the body has ended the transaction, and may begin another one; until then, it may have another user
   * over      what ends a transaction on it, if anything does, ends that of another user
   */
  #state: 'watching' | 'undone' | 'left' | 'over' = 'watching';

  readonly #survivesDisconnect: boolean;
  /** Why the body was refused its COMMIT, if a ROLLBACK was sent in its place: nothing may take effect on its own. */
  #refused: Error | undefined;

  /**
   * @param isInBody whether the code that runs here and now belongs to the body of the transaction
   * @param survivesDisconnect whether its driver does, so that the connection may be closed while the body runs
   */
  constructor(
    client: WatchableClient,
    isInBody: () => boolean = () => false,
    survivesDisconnect = true,
  ) {
    this.client = client;
    this.#survivesDisconnect = survivesDisconnect;
    this.#isInBody = isInBody;
    this.#interception = interceptQueries(client, (args, send) => this.#sent(args, send));
  }

  /** Whether its transaction has ended, so that the next BEGIN on it is that of another one. */
  get isOver(): boolean {
    return this.#state === 'over' || this.#state === 'undone';
  }

  /** The transaction is open, and its COMMIT is going to be seen. @param tx what stands for it */
  opened(tx: object): void {
    this.#tx = tx;
    if (this.#state === 'watching') noteSeen(tx);
  }

  /** Closes the connection: its COMMIT is not answered. */
  async close(): Promise<void> {
    await closePgClient(this.client);
  }

  /** The transaction is over, or was never opened. */
  stop(): void {
    this.#state = 'over';
    this.#interception.stop();
  }

  #sent(args: unknown[], send: (args: unknown[]) => unknown): unknown {
    const text = textOf(args[0]);
    if (this.#refused !== undefined && !this.#isBodyDone) {
      return after(Promise.reject(this.#refused), () => send(args), args);
    }
    const behind = this.#state === 'left' ? this.#refusalBehindEnd(text) : undefined;
    if (behind !== undefined) return after(Promise.reject(behind), () => send(args), args);
    if (this.#state === 'left' && this.#isInBody() && begins(text)) this.#goOn();
    if (this.#state === 'undone' && (text === undefined || begins(text))) this.stop();
    const isWatching = this.#state === 'watching' || this.#state === 'undone';
    const ending = isWatching && text !== undefined ? endingIn(text, 'postgres') : undefined;
    const late = this.#state === 'left' ? undefined : this.#refusalNow(ending && text);
    if (late !== undefined) return after(Promise.reject(late), () => send(args), args);
    return ending === undefined ? send(args) : this.#end(ending, text ?? '', args, send);
  }

  #goOn(): void {
    this.#state = 'watching';
    if (this.#tx !== undefined) noteSeen(this.#tx);
  }

  /** From now on, its COMMIT would not be seen. */
  #leave(): void {
    this.#state = 'left';
    if (this.#tx !== undefined) noteUnseen(this.#tx);
  }

  #refusalNow(ending: string | undefined): Error | undefined {
    const tx = this.#tx;
    return tx && refusalBy(() => this.#coordinator.assertBeforeCommit(tx, ending));
  }

  /**
   * Under a lock, the body takes effect on its own behind a ROLLBACK that its library does not know of. If it does, the
   * connection may have been given back, and what is sent on it now may belong to no transaction on purpose.
   */
  #refusalBehindEnd(text: string | undefined): Error | undefined {
    const tx = this.#tx;
    if (tx === undefined || !this.#isInBody() || isKnownToHaveEnded(tx)) return undefined;
    if (text !== undefined && endingIn(text, 'postgres') === 'rollback') return undefined; // once more
    return refusalBy(() => this.#coordinator.assertTakes(tx));
  }

  #end(ending: Ending, text: string, args: unknown[], send: (args: unknown[]) => unknown): unknown {
    const [statement] = args;
    const callback = callbackIn(args);
    const ended = this.#ended(ending, text, () => promised(args, send));
    if (isOwnQuery(statement)) {
      ended.then(
        () => statement.handleReadyForQuery(this.client),
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
    const isOfBody = this.#tx !== undefined && !this.#isBodyDone;
    let noteAnswer: NoteAnswer | undefined;
    try {
      if (ending !== 'rollback') await this.#whenIdle(text);
      if (this.#tx !== undefined && !isBroken(this.client)) {
        noteAnswer = this.#coordinator.sending(this.#tx, text, statusOf(this.client));
      }
    } catch (error) {
      await this.#leaveNothingOpen(error as Error);
      throw error;
    }
    const isLocked = this.#isLocked;
    let answer: unknown;
    try {
      answer = await send();
    } catch (error) {
      noteAnswer?.(error);
      if ((isLocked && ending === 'rollback') || !isAnswered(error)) await this.close();
      if (!isOfBody) this.#state = 'over';
      throw error;
    }
    if (!isOfBody && isLocked && ending === 'rollback') this.#state = 'undone';
    else if (!isOfBody) this.stop();
    else if (!isStillInside(this.client)) this.#leave();
    noteAnswer?.(undefined, commandIn(answer, text));
    return answer;
  }

  /** Under a lock, other statements on the connection are answered before the last look. */
  async #whenIdle(text: string): Promise<void> {
    const scope = this.#tx && this.#coordinator.openScope(this.#tx);
    if (scope?.isLocked !== true || !isBusy(this.client)) return;
    await whenIdle(this.client, this.#interception.sendPast, () => scope.waitsForTurn(text));
  }

  /** Without a lock, what the database has refused is left to whoever has sent it. */
  get #isLocked(): boolean {
    const scope = this.#tx && this.#coordinator.openScope(this.#tx);
    return scope?.isLocked ?? holdsHere().length > 0;
  }

  get #isBodyDone(): boolean {
    return this.#tx !== undefined && this.#coordinator.endedHere(this.#tx) !== undefined;
  }

  /**
   * The COMMIT is refused. While the body runs, its next statement would take effect on its own after a ROLLBACK: the
   * connection is closed, or takes nothing until the body is done if its driver would lose its place in the pool.
   */
  async #leaveNothingOpen(refused: Error): Promise<void> {
    const isBodyDone = this.#isBodyDone;
    if (!isBodyDone && this.#survivesDisconnect) return this.close();
    if (!isBodyDone) this.#refused = refused;
    if (!(await isRolledBack(this.#interception.sendPast(['ROLLBACK'])))) await this.close();
    else if (isBodyDone) this.stop();
  }
}

/** After `COMMIT AND CHAIN`, or `COMMIT; BEGIN`, it is in the next one. */
function isStillInside(client: PgClient): boolean {
  const status = client.getTransactionStatus?.();
  return status === 'T' || status === 'E';
}

/** What stands for a transaction in libraries that say whether it has ended. */
interface MaybeEnded {
  /** Knex. */
  readonly isCompleted?: () => boolean;
  /** Sequelize. */
  readonly finished?: unknown;
}

function isKnownToHaveEnded(tx: MaybeEnded): boolean {
  return tx.finished !== undefined || tx.isCompleted?.() === true;
}

function refusalBy(assert: () => void): Error | undefined {
  try {
    assert();
    return undefined;
  } catch (error) {
    return error as Error;
  }
}

/** What the server has answered to the statement that ends the transaction. A text of several has as many answers. */
function commandIn(answer: unknown, text: string): unknown {
  const one: unknown = Array.isArray(answer) ? answer[placeOfCommit(text, 'postgres')] : answer;
  return (one as { command?: unknown } | undefined)?.command;
}

export function isWatchable(client: unknown): client is WatchableClient {
  return isClosable(client) && typeof (client as Partial<WatchableClient>).query === 'function';
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
      const { _results, _result } = query as { readonly _results?: unknown; _result?: unknown };
      resolve(_results ?? _result);
    };
    query.handleError = (error) => {
      restore();
      reject(error);
    };
    send();
  });
}
