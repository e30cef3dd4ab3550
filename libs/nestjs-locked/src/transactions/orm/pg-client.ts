import type { ConnectionState } from '../sql/database-session.js';

/** The part of a node-postgres client that shows the state of its connection. */
export interface PgClient {
  /** The status in the server's last answer: T = in a transaction, E = in a failed one. */
  readonly getTransactionStatus?: () => unknown;
  /** False from the moment a statement is sent until it was answered. */
  readonly readyForQuery?: unknown;
  /** False when the connection is known to be lost. */
  readonly _queryable?: unknown;
}

/** Where ORMs keep the client of a transaction. */
interface MaybeKnown {
  /** TypeORM. */
  readonly queryRunner?: { readonly databaseConnection?: unknown };
  /** Drizzle. */
  readonly session?: { readonly client?: unknown };
  /** Sequelize. */
  readonly connection?: unknown;
}

/** @param tx the ORM's transaction object @returns undefined if its client is not accessible */
export function knownPgClient(tx: object): PgClient | undefined {
  const { queryRunner, session, connection } = tx as MaybeKnown;
  return [queryRunner?.databaseConnection, session?.client, connection, tx].find(isPgClient);
}

/** False for older versions and the native client (libpq), which do not show their state. */
export function isPgClient(value: unknown): value is PgClient {
  if (typeof value !== 'object' || value === null) return false;
  return typeof (value as PgClient).getTransactionStatus === 'function' && 'readyForQuery' in value;
}

const STATUSES = new Map<unknown, ConnectionState['transactionStatus']>([
  ['T', 'open'],
  ['E', 'failed'],
  ['I', 'none'],
]);

export function statusOf(client: PgClient | undefined): ConnectionState['transactionStatus'] {
  if (client?.readyForQuery !== true || client._queryable !== true) return undefined;
  return STATUSES.get(client.getTransactionStatus?.());
}

/** @param client returns the client of the transaction, or undefined if unknown */
export function stateOfClient(client: () => PgClient | undefined): ConnectionState {
  return {
    get transactionStatus() {
      return statusOf(client());
    },
  };
}
