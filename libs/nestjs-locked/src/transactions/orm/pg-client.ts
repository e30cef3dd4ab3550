import type { ConnectionState } from '../sql/database-session.js';

/** A client of node-postgres, as far as it tells in which state its connection is. */
export interface PgClient {
  /** What the server has said with its last answer: T = in a transaction, E = in one that has failed. */
  readonly getTransactionStatus?: () => unknown;
  /** False from the moment a statement is sent until it was answered. */
  readonly readyForQuery?: unknown;
  /** False as soon as the connection is known to be gone. */
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

/** @param tx what an ORM hands out for a transaction @returns undefined if its client cannot be reached */
export function knownPgClient(tx: object): PgClient | undefined {
  const { queryRunner, session, connection } = tx as MaybeKnown;
  return [queryRunner?.databaseConnection, session?.client, connection, tx].find(isPgClient);
}

/** Older versions, and the client on libpq, do not tell. */
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

/** @param client gives the client of the transaction, or undefined if it is not known */
export function stateOfClient(client: () => PgClient | undefined): ConnectionState {
  return {
    get transactionStatus() {
      return statusOf(client());
    },
  };
}
