import { contextHere } from '../../core/context-here.js';
import { openedHere } from './delayed-begin.js';

/**
 * The source of a library's clients: a pool of node-postgres, the client of Knex, or Sequelize's connection manager.
 */
interface ClientSource {
  connect?: (callback?: (error: unknown, client?: unknown, release?: unknown) => void) => unknown;
  acquireConnection?: (options?: unknown) => Promise<unknown>;
  getConnection?: (options?: unknown) => Promise<unknown>;
}

/** A driver adapter of Prisma. */
interface DriverFactory {
  connect: (...args: unknown[]) => Promise<{ readonly underlyingDriver?: () => unknown }>;
}

/** An object with which transactions are opened. */
interface MaybeKnown {
  /** A pool of node-postgres. */
  readonly totalCount?: unknown;
  /** Drizzle. */
  readonly $client?: unknown;
  /** TypeORM. */
  readonly driver?: { readonly master?: unknown };
  /** pg-promise. */
  readonly $pool?: unknown;
  /** Prisma. */
  readonly _engineConfig?: { readonly adapter?: unknown };
  /** Knex. */
  readonly client?: { readonly driverName?: unknown };
  /** Sequelize. */
  readonly connectionManager?: unknown;
}

const shown = new WeakSet<ClientSource>();

/**
 * From now on, shows each transaction the clients obtained for it, on which its BEGIN may be delayed.
 *
 * @param connection the object with which transactions are opened
 * @returns false if BEGIN cannot be delayed because the source of the clients is unknown or not node-postgres
 */
export function delayBeginsOf(connection: object): boolean {
  const source = sourceOf(connection);
  if (source !== undefined) {
    showClientsOf(source);
    return true;
  }
  const { _engineConfig } = connection as MaybeKnown;
  if (isDriverFactory(_engineConfig?.adapter)) showClientsOfPrisma(_engineConfig.adapter);
  return false;
}

const prismas = new WeakSet<DriverFactory>();

/** Prisma creates or receives a pool when it connects. */
function showClientsOfPrisma(factory: DriverFactory): void {
  if (prismas.has(factory)) return;
  prismas.add(factory);
  const { connect } = factory;
  factory.connect = async (...args) => {
    const driver = await connect.apply(factory, args);
    const pool = driver.underlyingDriver?.();
    if (isPool(pool)) showClientsOf(pool);
    return driver;
  };
}

function isDriverFactory(value: unknown): value is DriverFactory {
  return typeof (value as Partial<DriverFactory> | undefined)?.connect === 'function';
}

/** @param source a pool of node-postgres, a client of Knex using it, or Sequelize's connection manager */
export function showClientsOf(source: ClientSource): void {
  if (shown.has(source)) return;
  shown.add(source);
  const { connect, acquireConnection, getConnection } = source;
  if (acquireConnection !== undefined) {
    source.acquireConnection = showing(acquireConnection.bind(source));
  } else if (getConnection !== undefined) {
    source.getConnection = showing(getConnection.bind(source));
  } else if (connect !== undefined) {
    const connectShowing = showing(() => connect.call(source) as Promise<unknown>);
    source.connect = (callback) => {
      if (callback === undefined) return connectShowing();
      const opening = openedHere();
      try {
        opening?.connecting();
      } catch (error) {
        return callback(error);
      }
      // Called by code that releases a client, possibly in the body of a transaction, or by the socket.
      const here = contextHere();
      const connected: typeof callback = (...answer) => here(() => callback(...answer));
      if (opening === undefined) return connect.call(source, connected);
      return connect.call(source, (error, client, release) => {
        opening.on(client);
        connected(error, client, release);
      });
    };
  }
}

/** Shows the client to the transaction being opened. */
function showing(
  get: (options?: unknown) => Promise<unknown>,
): (options?: unknown) => Promise<unknown> {
  return async (options) => {
    const opening = openedHere();
    opening?.connecting();
    const client = await get(options);
    opening?.on(client);
    return client;
  };
}

function sourceOf(connection: object): ClientSource | undefined {
  const { $client, $pool, driver, client, connectionManager } = connection as MaybeKnown;
  if (client?.driverName === 'pg') return client as ClientSource;
  if (hasConnections(connectionManager)) return connectionManager;
  return [connection, $client, $pool, driver?.master].find(isPool);
}

function hasConnections(value: unknown): value is ClientSource {
  return typeof (value as ClientSource | undefined)?.getConnection === 'function';
}

function isPool(value: unknown): value is ClientSource {
  if (typeof value !== 'object' || value === null) return false;
  return 'totalCount' in value && typeof (value as ClientSource).connect === 'function';
}
