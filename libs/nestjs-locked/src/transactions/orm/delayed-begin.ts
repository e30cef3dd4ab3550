import { AsyncLocalStorage } from 'node:async_hooks';
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

/** What is done in an async context: a transaction is opened, or its first statement is sent. */
interface Doing {
  readonly opens?: DelayedBegin;
  readonly speaksFor?: DelayedBegin;
}

/** One for both: every storage that is in use makes every promise of the process dearer. */
const DOING = new AsyncLocalStorage<Doing>();

/**
 * The BEGIN of a transaction on node-postgres that waits for the first statement, which is the claim, and is sent in
 * one message with it: this saves a round trip. The library that opens the transaction gets an answer at once. If
 * anything else is sent first, the BEGIN is sent before it.
 *
 * Only a transaction that is opened under a lock, and that will claim or arm something, begins like this.
 */
export class DelayedBegin {
  /** BEGIN, and a SET TRANSACTION after it, if there is one. */
  readonly #held: string[] = [];
  #isWaiting = true;
  #isOver = false;
  #client: CarryingClient | undefined;

  /** The client of the transaction; undefined if its first statement has not carried the BEGIN. */
  get client(): PgClient | undefined {
    return this.#client;
  }

  /** Opens the transaction. Its BEGIN is delayed if it gets its client from a pool that delays. */
  async opening<R>(open: () => Promise<R>): Promise<R> {
    try {
      return await DOING.run({ opens: this }, open);
    } finally {
      this.#isOver = true;
    }
  }

  /** The transaction is open: clients that are connected from now on are not its own. */
  opened(): void {
    this.#isWaiting = false;
  }

  /** Sends the first statement of the transaction. */
  speaking<R>(send: () => Promise<R>): Promise<R> {
    return DOING.run({ speaksFor: this }, send);
  }

  /** Delays what begins the transaction on this client, up to its first other statement. */
  on(client: unknown): void {
    if (!this.#isWaiting || !isCarryingClient(client)) return;
    this.#isWaiting = false;
    const own = Object.getOwnPropertyDescriptor(client, 'query');
    const { query } = client;
    let isDelaying = true;
    const delaying: Query = (...args) => {
      if (!isDelaying) return query.apply(client, args);
      if (this.#holds(args)) return answer(args);
      isDelaying = false;
      if (client.query === delaying) restore(client, own);
      return this.#send(client, args);
    };
    client.query = delaying;
  }

  #holds(args: readonly unknown[]): boolean {
    const text = plainText(args);
    if (text === undefined || this.#isOver) return false;
    if (!(this.#held.length === 0 ? BEGIN : SETS_TRANSACTION).test(text)) return false;
    this.#held.push(text);
    return true;
  }

  #send(client: CarryingClient, args: unknown[]): unknown {
    const held = this.#held;
    if (held.length === 0 || this.#isOver) return client.query(...args);
    const text = plainText(args);
    if (text !== undefined && ROLLBACK.test(text)) return answer(args); // nothing has begun
    if (DOING.getStore()?.speaksFor === this && !isOwnQuery(args[0])) {
      this.#client = client;
      return carry(client, held, args);
    }
    const begun = client.query(held.join('; ')) as Promise<unknown>;
    if (!isOwnQuery(args[0]) && callbackIn(args) === undefined) {
      return begun.then(() => client.query(...args));
    }
    begun.catch(() => {}); // what follows fails, too
    return client.query(...args);
  }
}

/** The transaction that is being opened in this async context. */
export function openedHere(): DelayedBegin | undefined {
  return DOING.getStore()?.opens;
}

function restore(client: CarryingClient, own: PropertyDescriptor | undefined): void {
  if (own === undefined) Reflect.deleteProperty(client, 'query');
  else Object.defineProperty(client, 'query', own);
}
