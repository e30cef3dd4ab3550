import { knownDialect } from './known-dialect.js';

/** An emitter of errors: a pool of node-postgres, or a client. */
export interface ErrorSource {
  /** Adds a listener, as `EventEmitter` does. */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- every event has its own arguments
  on(event: string, listener: (...args: any[]) => void): unknown;
}

/** The pools and clients that already have a listener. */
const guarded = new WeakSet<ErrorSource>();

/**
 * Adds an `error` listener to the clients: when the database closes a connection, node-postgres emits `error` on its
 * client, which without a listener ends the process. The error is not lost: the next statement on that client fails,
 * and the pool drops the client.
 */
export function guardClients(source: ErrorSource): void {
  if (guarded.has(source)) return;
  guarded.add(source);
  if (isPool(source)) source.on('acquire', (client: ErrorSource) => guardClients(client));
  else source.on('error', () => {});
}

/** The `error` event of a pool concerns idle clients, and is left to the application. */
function isPool(source: ErrorSource): boolean {
  return 'totalCount' in source;
}

/** The known properties of the clients with which an ORM opens transactions. */
export interface KnownClients {
  /** Undefined if the ORM adds its own listeners, or they are not clients of node-postgres. */
  readonly source: ErrorSource | 'out of reach' | undefined;
  /** Whether the driver survives a connection closed by the database. */
  readonly survivesDisconnect: boolean;
}

interface MaybeKnown {
  /** Drizzle: the client of its driver. */
  readonly $client?: unknown;
  /** Kysely. */
  readonly getExecutor?: unknown;
}

/**
 * @param connection the object with which transactions are opened: Drizzle's database, a Kysely, a pool of
 * node-postgres
 */
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

/** postgres.js is a function with methods. */
function isPostgresJs(client: unknown): boolean {
  return typeof client === 'function' && 'begin' in client && 'unsafe' in client;
}
