import { isClosable } from './broken-connection.js';
import { isPgClient, statusOf } from './pg-client.js';

/** A client of node-postgres, as far as it passes on what the server warns of. */
interface WarnedClient {
  on(event: 'notice', listener: (notice: { readonly code?: unknown }) => void): unknown;
  removeListener(event: 'notice', listener: (notice: never) => void): unknown;
}

/** `active_sql_transaction`: there is already a transaction in progress. PostgreSQL warns of it, and continues. */
const BEGUN_TWICE = '25001';

/**
 * Knows whether a transaction begins on a connection that is still in the transaction of its former user: a pool hands
 * it out like any other, and BEGIN does nothing there. This sends no query: node-postgres knows what the server has
 * said last, and where answers are still to come, the server warns of the BEGIN.
 */
export class BeginWatch {
  readonly #inside = new Set<unknown>();
  #endings: (() => void)[] = [];
  #hasBegun = false;

  /** Nothing was sent on the client for the transaction. */
  on(client: unknown): void {
    if (this.#hasBegun || !isWarned(client)) return;
    const status = isPgClient(client) ? statusOf(client) : undefined;
    if (status === 'none') this.#inside.delete(client);
    else if (status !== undefined) this.#inside.add(client);
    else this.#awaitWarning(client);
  }

  #awaitWarning(client: WarnedClient): void {
    const warned = ({ code }: { readonly code?: unknown }): void => {
      if (code === BEGUN_TWICE) this.#inside.add(client);
    };
    client.on('notice', warned);
    this.#endings.push(() => client.removeListener('notice', warned));
  }

  /** Its BEGIN was answered, or is not sent at all. Whoever sends another one is warned for that. */
  begun(): void {
    this.#hasBegun = true; // a client may still come for a transaction that was given up
    for (const end of this.#endings) end();
    this.#endings = [];
  }

  /** Whether it has begun in another one, as far as that is known by now. @param client of the transaction */
  isInside(client: unknown): boolean {
    return this.#inside.has(client);
  }
}

function isWarned(client: unknown): client is WarnedClient {
  return (
    isClosable(client) && typeof (client as Partial<WarnedClient>).removeListener === 'function'
  );
}
