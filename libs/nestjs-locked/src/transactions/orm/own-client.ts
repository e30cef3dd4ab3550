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
 * Finds the client of a transaction: the one on which the opening code sends BEGIN in its async context, or the one
 * that the ORM names. Another client that connects meanwhile may serve other code, whose statements pass unchanged.
 *
 * A driver may repeat its transaction on another client, which then replaces the first.
 */
export class OwnClient implements OpeningTransaction {
  readonly connecting: () => void;
  readonly #survivesDisconnect: boolean;
  readonly #delayed: DelayedBegin | undefined;
  /** Functions that stop watching the clients that connected during the opening. */
  readonly #shown = new Map<object, () => void>();
  readonly #watches: ClientWatch[] = [];
  #begun: Begun | undefined;
  /** False while a transaction is open: other transactions that begin meanwhile belong to hooks. */
  #mayBegin = true;
  #isStopped = false;

  /**
   * @param delayed delays the first BEGIN
   * @param connecting called before a client is requested
   * @param survivesDisconnect whether its driver survives a closed connection
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
      return client.query(...args); // through all present interceptors
    });
    this.#shown.set(client, stop);
  }

  isOn(client: unknown): void {
    if (this.#isStopped || !isWatchable(client) || this.#isAlready(client)) return;
    this.#found(client);
  }

  /** Called when the transaction is open. @param tx its object */
  opened(tx: object): void {
    if (this.watch?.isOver !== false) {
      this.beginning?.begun();
      this.#begun = undefined; // it has another user now
      this.isOn(knownPgClient(tx));
    }
    this.#mayBegin = false;
    this.watch?.opened(tx);
  }

  /** Called when its body or gate has failed: after the rollback, a driver may repeat it. */
  failed(): void {
    this.#mayBegin = true;
  }

  /** Called when it is over, or was never opened. */
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
