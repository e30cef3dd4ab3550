import { knownDialect } from './known-dialect.js';

/** What emits errors: a pool of node-postgres, or a client. */
export interface ErrorSource {
  /** Adds a listener, as `EventEmitter` does. */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- every event has arguments of its own
  on(event: string, listener: (...args: any[]) => void): unknown;
}

/** The pools and clients that are listened to already. */
const guarded = new WeakSet<ErrorSource>();

/**
 * When the database has ended the connection of a client, node-postgres emits an `error` event on it, and such an event
 * without a listener ends the process. The error is not lost: the next statement on that client fails, and the pool
 * drops the client.
 */
export function guardClients(source: ErrorSource): void {
  if (guarded.has(source)) return;
  guarded.add(source);
  if (isPool(source)) source.on('acquire', (client: ErrorSource) => guardClients(client));
  else source.on('error', () => {});
}

/** The `error` event of a pool tells of idle clients, and is left to the application. */
function isPool(source: ErrorSource): boolean {
  return 'totalCount' in source;
}

/** What is known about the clients with which an ORM opens its transactions. */
export interface KnownClients {
  /** Undefined if the ORM listens on its own, or if they are not clients of node-postgres. */
  readonly source: ErrorSource | 'out of reach' | undefined;
  /** Whether the driver survives it if the database ends its connection. */
  readonly survivesDisconnect: boolean;
}

interface MaybeKnown {
  /** Drizzle: what its driver was made with. */
  readonly $client?: unknown;
  /** Kysely. */
  readonly getExecutor?: unknown;
}

/** @param connection what transactions are opened with: Drizzle's database, a Kysely, a pool of node-postgres */
export function knownClients(connection: object): KnownClients {
  const { $client, getExecutor } = connection as MaybeKnown;
  if (isErrorSource(connection) && isPool(connection)) {
    return { source: connection, survivesDisconnect: true };
  }
  if (knownDialect(connection) !== 'postgres')
    return { source: undefined, survivesDisconnect: true };
  if (isErrorSource($client)) return { source: $client, survivesDisconnect: true };
  return {
    source: typeof getExecutor === 'function' ? 'out of reach' : undefined,
    survivesDisconnect: !isPostgresJs($client),
  };
}

function isErrorSource(value: unknown): value is ErrorSource {
  return typeof value === 'object' && value !== null && 'on' in value && 'connect' in value;
}

/** A function with methods. */
function isPostgresJs(client: unknown): boolean {
  return typeof client === 'function' && 'begin' in client && 'unsafe' in client;
}
