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
 * Watches the statements on the node-postgres client of one transaction: shows its scope those that end it, and closes
 * the connection if one of them is not answered. Otherwise the pool would reuse the connection, and the next
 * transaction on it would commit both. For the same reason it rolls back a refused COMMIT itself, because some
 * libraries then release the connection without a ROLLBACK.
 */
export class ClientWatch {
  readonly client: PgClient;
  readonly #coordinator = ambientCoordinator();
  readonly #interception: Interception;
  readonly #isInBody: () => boolean;
  #tx: object | undefined;
  /**
   * watching  believed to be in the transaction
   * undone    rolled back after the body, perhaps by a hook; its COMMIT may still follow
   * left      the body has ended the transaction and may begin another; meanwhile, the client may have another user
   * over      statements that end a transaction end that of another user
   */
  #state: 'watching' | 'undone' | 'left' | 'over' = 'watching';

  readonly #survivesDisconnect: boolean;
  /**
   * Why a COMMIT of the body was refused, if a ROLLBACK was sent instead: no later statement may take effect
   * separately.
   */
  #refused: Error | undefined;

  /**
   * @param isInBody whether the running code belongs to the body of the transaction
   * @param survivesDisconnect whether the driver survives a closed connection, so that it may be closed while the body
   * runs
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

  /** Whether the transaction has ended, so that the next BEGIN on the client belongs to another one. */
  get isOver(): boolean {
    return this.#state === 'over' || this.#state === 'undone';
  }

  /** Called when the transaction is open and its COMMIT will be seen. @param tx its object */
  opened(tx: object): void {
    this.#tx = tx;
    if (this.#state === 'watching') noteSeen(tx);
  }

  /** Closes the connection, because its COMMIT is not answered. */
  async close(): Promise<void> {
    await closePgClient(this.client);
  }

  /** Called when the transaction is over, or was never opened. */
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

  /** Called when its COMMIT would no longer be seen. */
  #leave(): void {
    this.#state = 'left';
    if (this.#tx !== undefined) noteUnseen(this.#tx);
  }

  #refusalNow(ending: string | undefined): Error | undefined {
    const tx = this.#tx;
    return tx && refusalBy(() => this.#coordinator.assertBeforeCommit(tx, ending));
  }

  /**
   * Refuses statements under a lock after a ROLLBACK unknown to the library, where they would take effect separately.
   * If the library knows of it, the connection may have been released, and statements outside a transaction are
   * legitimate.
   */
  #refusalBehindEnd(text: string | undefined): Error | undefined {
    const tx = this.#tx;
    if (tx === undefined || !this.#isInBody() || isKnownToHaveEnded(tx)) return undefined;
    if (text !== undefined && endingIn(text, 'postgres') === 'rollback') return undefined; // a repeated rollback
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

  /** Under a lock, waits for other statements on the connection before the last check. */
  async #whenIdle(text: string): Promise<void> {
    const scope = this.#tx && this.#coordinator.openScope(this.#tx);
    if (scope?.isLocked !== true || !isBusy(this.client)) return;
    await whenIdle(this.client, this.#interception.sendPast, () => scope.waitsForTurn(text));
  }

  /** Whether the transaction runs under a lock; without one, refusals of the database are left to the sender. */
  get #isLocked(): boolean {
    const scope = this.#tx && this.#coordinator.openScope(this.#tx);
    return scope?.isLocked ?? holdsHere().length > 0;
  }

  get #isBodyDone(): boolean {
    return this.#tx !== undefined && this.#coordinator.endedHere(this.#tx) !== undefined;
  }

  /**
   * Ends the transaction of a refused COMMIT. After a ROLLBACK, the next statement of a running body would take effect
   * separately, so the connection is closed, or, if its driver would not survive that, refuses statements until the
   * body is done.
   */
  async #leaveNothingOpen(refused: Error): Promise<void> {
    const isBodyDone = this.#isBodyDone;
    if (!isBodyDone && this.#survivesDisconnect) return this.close();
    if (!isBodyDone) this.#refused = refused;
    if (!(await isRolledBack(this.#interception.sendPast(['ROLLBACK'])))) await this.close();
    else if (isBodyDone) this.stop();
  }
}

/** Whether the client is in the next transaction, after `COMMIT AND CHAIN` or `COMMIT; BEGIN`. */
function isStillInside(client: PgClient): boolean {
  const status = client.getTransactionStatus?.();
  return status === 'T' || status === 'E';
}

/** Transaction objects of libraries that expose whether they have ended. */
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

/**
 * The server's answer to the statement that ends the transaction. A text with several statements has several answers.
 */
function commandIn(answer: unknown, text: string): unknown {
  const one: unknown = Array.isArray(answer) ? answer[placeOfCommit(text, 'postgres')] : answer;
  return (one as { command?: unknown } | undefined)?.command;
}

export function isWatchable(client: unknown): client is WatchableClient {
  return isClosable(client) && typeof (client as Partial<WatchableClient>).query === 'function';
}

/** Sends a statement so that its answer arrives here first. */
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

/** Does not notify the query itself, which is left to whoever awaits the promise. */
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
