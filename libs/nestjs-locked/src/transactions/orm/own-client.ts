import { BeginWatch } from './begin-watch.js';
import { ClientWatch, isWatchable } from './client-watch.js';
import {
  type DelayedBegin,
  isInBodyOf,
  openedHere,
  type OpeningTransaction,
} from './delayed-begin.js';
import { interceptQueries } from './intercepted-queries.js';
import { knownPgClient, type PgClient } from './pg-client.js';
import { begins, textOf } from './statement-text.js';

/** The client on which a transaction has begun. */
interface Begun {
  readonly watch: ClientWatch;
  readonly beginning: BeginWatch;
}

/**
 * Finds the client of a transaction: it is the one on which a BEGIN is sent by the code that opens the transaction, in
 * its async context, or the one that the ORM names. A client that is connected meanwhile may be for something else, and
 * have another user soon: what that one sends on it passes untouched.
 *
 * A driver that repeats its transaction may do so on another client, which is then the one.
 */
export class OwnClient implements OpeningTransaction {
  readonly connecting: () => void;
  readonly #survivesDisconnect: boolean;
  readonly #delayed: DelayedBegin | undefined;
  /** What to call to leave the clients alone that were connected while it was opened. */
  readonly #shown = new Map<object, () => void>();
  readonly #watches: ClientWatch[] = [];
  #begun: Begun | undefined;
  /** False while one is open: what begins elsewhere in the meantime belongs to a hook. */
  #mayBegin = true;
  #isStopped = false;

  /**
   * @param delayed what holds the first BEGIN back
   * @param connecting called before a client is requested
   * @param survivesDisconnect whether its driver survives it if its connection is closed
   */
  constructor(
    delayed: DelayedBegin | undefined,
    connecting: () => void,
    survivesDisconnect = true,
  ) {
    this.#survivesDisconnect = survivesDisconnect;
    this.#delayed = delayed;
    this.connecting = connecting;
  }

  get watch(): ClientWatch | undefined {
    return this.#begun?.watch;
  }

  get beginning(): BeginWatch | undefined {
    return this.#begun?.beginning;
  }

  on(client: unknown): void {
    if (this.#isStopped || !isWatchable(client) || this.#shown.has(client)) return;
    const { stop } = interceptQueries(client, (args, send) => {
      if (!this.#beginsOn(client, args)) return send(args);
      this.#found(client).beginning.on(client);
      this.#delayed?.on(client);
      return client.query(...args); // through all that is there now
    });
    this.#shown.set(client, stop);
  }

  isOn(client: unknown): void {
    if (this.#isStopped || !isWatchable(client) || this.#isAlready(client)) return;
    this.#found(client);
  }

  /** The transaction is open. @param tx what stands for it */
  opened(tx: object): void {
    if (this.watch?.isOver !== false) {
      this.beginning?.begun();
      this.#begun = undefined; // it has another user now
      this.isOn(knownPgClient(tx));
    }
    this.#mayBegin = false;
    this.watch?.opened(tx);
  }

  /** Its body has failed, or its gate: after its rollback, a driver may repeat it. */
  failed(): void {
    this.#mayBegin = true;
  }

  /** It is over, or was never opened. */
  stop(): void {
    this.#isStopped = true;
    for (const stop of this.#shown.values()) stop();
    for (const watch of this.#watches) watch.stop();
    this.beginning?.begun();
  }

  #beginsOn(client: PgClient, [statement]: readonly unknown[]): boolean {
    if (openedHere() !== this || this.#isAlready(client)) return false;
    if (!this.#mayBegin && this.watch?.isOver !== true) return false;
    return begins(textOf(statement));
  }

  #isAlready(client: PgClient): boolean {
    return this.watch?.client === client && !this.watch.isOver;
  }

  #found(client: Parameters<typeof interceptQueries>[0] & PgClient): Begun {
    this.beginning?.begun();
    const watch = new ClientWatch(client, () => isInBodyOf(this), this.#survivesDisconnect);
    this.#watches.push(watch);
    return (this.#begun = { watch, beginning: new BeginWatch() });
  }
}
