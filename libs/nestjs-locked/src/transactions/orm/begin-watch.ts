import { isClosable } from './broken-connection.js';
import { isPgClient, statusOf } from './pg-client.js';

/** The part of a node-postgres client that emits the server's warnings. */
interface WarnedClient {
  on(event: 'notice', listener: (notice: { readonly code?: unknown }) => void): unknown;
  removeListener(event: 'notice', listener: (notice: never) => void): unknown;
}

/** `active_sql_transaction`: a transaction is already in progress. PostgreSQL warns and continues. */
const BEGUN_TWICE = '25001';

/**
 * Detects that a transaction begins on a connection still in the transaction of its former user: a pool hands it out
 * like any other, and BEGIN has no effect there. This takes no query: node-postgres knows the last status of the
 * server, and if answers are pending, the server warns of the BEGIN.
 */
export class BeginWatch {
  readonly #inside = new Set<unknown>();
  #endings: (() => void)[] = [];
  #hasBegun = false;

  /** Called when nothing was sent on the client for the transaction yet. */
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

  /** Called when its BEGIN was answered, or is never sent: later warnings belong to other BEGINs. */
  begun(): void {
    this.#hasBegun = true; // a client may still arrive for a transaction that was given up
    for (const end of this.#endings) end();
    this.#endings = [];
  }

  /** Whether it is known to have begun inside another one. @param client of the transaction */
  isInside(client: unknown): boolean {
    return this.#inside.has(client);
  }
}

function isWarned(client: unknown): client is WarnedClient {
  return (
    isClosable(client) && typeof (client as Partial<WarnedClient>).removeListener === 'function'
  );
}
