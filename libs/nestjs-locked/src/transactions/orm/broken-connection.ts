import { systemClock } from '../../core/time/clock.js';
import { knownPgClient } from './pg-client.js';
import { type ErrorSource, guardClients } from './pg-clients.js';

/** How long a connection may take to close. */
const LIMIT_MS = 1_000;

/** The part of a node-postgres client with which its connection can be closed. */
interface ClosablePgClient extends ErrorSource {
  readonly connection: { readonly stream: { destroy(): void } };
  readonly _ended?: unknown;
  once(event: 'end', listener: () => void): unknown;
}

/** False for the native client (libpq). */
export function isClosable(client: unknown): client is ClosablePgClient {
  const { connection, once } = (client ?? {}) as Partial<ClosablePgClient>;
  return typeof connection?.stream?.destroy === 'function' && typeof once === 'function';
}

/** The state of connections in drivers. */
interface MaybeBroken {
  /** node-postgres. */
  readonly _queryable?: unknown;
  /** node-postgres. */
  readonly _ending?: unknown;
  /** mysql2, also after an error. */
  readonly _closing?: unknown;
}

/** Whether the driver knows that the connection is lost and sends nothing on it any more. */
export function isBroken(connection: unknown): boolean {
  const { _queryable, _ending, _closing } = (connection ?? {}) as MaybeBroken;
  return _queryable === false || _ending === true || _closing === true;
}

/**
 * Closes the connection of a node-postgres client, whose state is unknown, so that every pool drops it.
 *
 * @returns when the listeners of the client have been called
 */
export function closePgClient(client: unknown): Promise<void> {
  if (!isClosable(client) || client._ended === true) return Promise.resolve();
  guardClients(client);
  return new Promise((resolve) => {
    const cancel = systemClock.after(LIMIT_MS, resolve);
    client.once('end', () => {
      cancel();
      resolve();
    });
    client.connection.stream.destroy();
  });
}

/** Where ORMs keep a connection of mysql2. */
interface MaybeKnown {
  /** TypeORM. */
  readonly queryRunner?: { readonly databaseConnection?: unknown; readonly isReleased?: unknown };
  /** Drizzle. */
  readonly session?: { readonly client?: unknown };
}

/** A connection of mysql2, as Knex passes it to each statement. */
interface KnexConnection {
  readonly stream?: { destroy(error: Error): void };
}

/** A transaction of Knex exposes its connection only when a statement is sent on it. */
const ofKnex = new WeakMap<object, KnexConnection>();

export function noteKnexConnection(tx: object, connection: unknown): void {
  ofKnex.set(tx, connection as KnexConnection);
}

/**
 * Closes the connection of a transaction, if it can be reached. A released query runner of TypeORM still refers to its
 * connection, which may have another user and is left alone.
 *
 * @param tx the ORM's transaction object
 */
export async function closeConnectionOf(tx: object): Promise<void> {
  if ((tx as MaybeKnown).queryRunner?.isReleased === true) return;
  const client = knownPgClient(tx);
  if (client !== undefined) return closePgClient(client);
  const { queryRunner, session } = tx as MaybeKnown;
  for (const connection of [queryRunner?.databaseConnection, session?.client, tx])
    destroy(connection);
  // Knex releases it only when the statement in flight has failed.
  ofKnex.get(tx)?.stream?.destroy(new Error('It was closed, because it has not answered'));
}

/** Destroys a connection of mysql2, which removes it from its pool. */
function destroy(connection: unknown): void {
  if (typeof connection !== 'object' || connection === null) return;
  const { destroy, threadId } = connection as { destroy?: unknown; threadId?: unknown };
  if (typeof destroy === 'function' && typeof threadId === 'number') destroy.call(connection);
}
