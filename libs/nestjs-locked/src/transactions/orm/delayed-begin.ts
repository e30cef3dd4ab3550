import { ContextVariable } from '../../core/context-variable.js';
import {
  answer,
  callbackIn,
  carry,
  type CarryingClient,
  isCarryingClient,
  isOwnQuery,
  plainText,
  type Query,
} from './carried-statements.js';
import type { PgClient } from './pg-client.js';

const BEGIN = /^\s*(BEGIN|START\s+TRANSACTION)\b[^;]*;?\s*$/i;
const SETS_TRANSACTION = /^\s*SET\s+TRANSACTION\b[^;]*;?\s*$/i;
const ROLLBACK = /^\s*ROLLBACK\s*;?\s*$/i;

/** A transaction being opened, which is shown the clients that connect meanwhile. */
export interface OpeningTransaction {
  /** Called before a client is requested. @throws LockInTransactionError if the transaction must not be opened */
  connecting(): void;
  on(client: unknown): void;
  /** Called when the transaction is open on this client, whichever connected first. */
  isOn(client: unknown): void;
}

/** The activity of an async context: a transaction is opened, its first statement is sent, or its body runs. */
interface Doing {
  /**
   * Undefined when the opening is over, because code started in it may keep this context, and the next transaction, for
   * ever.
   */
  opens?: OpeningTransaction | undefined;
  readonly speaksFor?: DelayedBegin;
  /** Weak for the same reason. */
  readonly isBodyOf?: WeakRef<OpeningTransaction>;
}

const DOING = new ContextVariable<Doing>();

/**
 * Delays the BEGIN of a node-postgres transaction until the first statement, the claim, and sends both in one message,
 * which saves a round trip. The library that opens the transaction gets an answer at once. If any other statement comes
 * first, the BEGIN is sent before it.
 *
 * Used only for a transaction under a lock that will claim or arm something.
 */
export class DelayedBegin {
  /** BEGIN, and a SET TRANSACTION after it, if any. */
  readonly #held: string[] = [];
  #isWaiting = true;
  #isOver = false;
  #client: CarryingClient | undefined;
  #leave: () => void = () => {};

  /** The client of the transaction; undefined unless its first statement carried the BEGIN. */
  get client(): PgClient | undefined {
    return this.#client;
  }

  /** Called when the transaction is over: nothing is held back any more. */
  over(): void {
    this.#isOver = true;
    this.#leave();
  }

  /** Called when the transaction is open: clients that connect from now on are not its own. */
  opened(): void {
    this.#isWaiting = false;
  }

  /** Sends the first statement of the transaction. */
  speaking<R>(send: () => Promise<R>): Promise<R> {
    return DOING.run({ speaksFor: this }, send);
  }

  /**
   * Delays the statements that begin the transaction on this client, until its first other statement. The client's
   * `query` passes through these states:
   *
   * - delaying: BEGIN and SET TRANSACTION are held back, and answered as if they had succeeded.
   * - carried: the first statement is our claim. It takes the BEGIN with it, and `query` is restored.
   * - begun first: anything else, such as a query of a hook or an object that sends itself (a cursor), waits until the
   *   BEGIN has been sent alone and answered. Statements that follow wait behind it, in their order.
   * - failed: the BEGIN was refused, and the server has no transaction. Each statement gets the error instead of being
   *   sent, because it would be committed on its own. This ends with ROLLBACK, or when the transaction is over.
   */
  on(client: unknown): void {
    if (!this.#isWaiting || !isCarryingClient(client)) return;
    this.#isWaiting = false;
    const own = Object.getOwnPropertyDescriptor(client, 'query');
    const { query } = client;
    let isDelaying = true;
    let begun: Promise<unknown> | undefined;
    let hasFailed = false;
    const goOn = (): void => {
      isDelaying = false;
      begun = undefined;
      if (client.query === delaying) restore(client, own);
    };
    /** Every statement gets the error until the ROLLBACK, because the library or a hook may swallow it. */
    const notBegun = (error: Error): void => {
      if (this.#isOver) return goOn();
      hasFailed = true;
      begun ??= Promise.reject(error);
      begun.catch(() => {});
      if (isRestored(client, own)) client.query = delaying;
    };
    const delaying: Query = (...args) => {
      const send = (): unknown => query.apply(client, args);
      if (begun !== undefined) {
        return after(isRollback(args) ? begun.catch(goOn) : begun, send, args);
      }
      if (!isDelaying) return send();
      if (this.#holds(args)) return answer(args);
      if (this.#mustBeginFirst(args)) {
        begun = query.call(client, this.#held.join('; ')) as Promise<unknown>;
        begun.then(goOn, notBegun);
        return after(begun, send, args);
      }
      goOn();
      return this.#send(client, args, notBegun);
    };
    client.query = delaying;
    this.#leave = () => {
      if (begun === undefined || hasFailed) goOn(); // otherwise, statements still wait for the BEGIN
    };
  }

  /**
   * Whether the BEGIN must precede a statement that is not ours, and neither ends the transaction nor belongs to
   * another one.
   */
  #mustBeginFirst(args: readonly unknown[]): boolean {
    if (this.#held.length === 0 || this.#isOver) return false;
    if (isRollback(args)) return false;
    return DOING.get()?.speaksFor !== this || isOwnQuery(args[0]);
  }

  #holds(args: readonly unknown[]): boolean {
    const text = plainText(args);
    if (text === undefined || this.#isOver) return false;
    if (!(this.#held.length === 0 ? BEGIN : SETS_TRANSACTION).test(text)) return false;
    this.#held.push(text);
    return true;
  }

  #send(client: CarryingClient, args: unknown[], notBegun: (error: Error) => void): unknown {
    const held = this.#held;
    if (held.length === 0 || this.#isOver) return client.query(...args);
    if (isRollback(args)) return answer(args); // there is no transaction yet
    this.#client = client;
    return carry(client, held, args, notBegun);
  }
}

/**
 * Sends a statement when its transaction has begun, or never if that failed: it would take effect separately.
 * Statements keep their order.
 */
export function after(
  begun: Promise<unknown>,
  send: () => unknown,
  args: readonly unknown[],
): unknown {
  const [statement] = args;
  const callback = callbackIn(args);
  if (isOwnQuery(statement)) {
    begun.then(send, (error: Error) => statement.handleError(error));
    return statement;
  }
  if (callback === undefined) return begun.then(send);
  const sent = (): void => void send(); // mysql2 returns an object that cannot be awaited
  begun.then(sent, (error: Error) => callback(error));
  return undefined;
}

/** Shows a transaction the clients that connect while it is opened. */
export async function opening<R>(
  transaction: OpeningTransaction,
  open: () => Promise<R>,
): Promise<R> {
  const doing: Doing = { opens: transaction };
  try {
    return await DOING.run(doing, open);
  } finally {
    doing.opens = undefined;
  }
}

/** The transaction being opened in this async context. */
export function openedHere(): OpeningTransaction | undefined {
  return DOING.get()?.opens;
}

/** Runs the body of a transaction: transactions that begin inside are separate ones. */
export function inBodyOf<R>(transaction: OpeningTransaction, body: () => Promise<R>): Promise<R> {
  return DOING.run({ isBodyOf: new WeakRef(transaction) }, body);
}

export function isInBodyOf(transaction: OpeningTransaction): boolean {
  return DOING.get()?.isBodyOf?.deref() === transaction;
}

function isRollback(args: readonly unknown[]): boolean {
  return ROLLBACK.test(plainText(args) ?? '');
}

function isRestored(client: CarryingClient, own: PropertyDescriptor | undefined): boolean {
  return Object.getOwnPropertyDescriptor(client, 'query')?.value === own?.value;
}

function restore(client: CarryingClient, own: PropertyDescriptor | undefined): void {
  if (own === undefined) Reflect.deleteProperty(client, 'query');
  else Object.defineProperty(client, 'query', own);
}
