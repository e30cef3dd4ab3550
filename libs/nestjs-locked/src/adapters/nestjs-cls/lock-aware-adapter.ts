import { ClsServiceManager } from 'nestjs-cls';
import { wrongArgument } from '../../core/arguments.js';
import { openLocks } from '../../core/calls/transaction-registry.js';
import { assertOptions, type OptionTable } from '../../core/option.js';
import { ADAPTER_OPTIONS, poolOrFalse } from '../../transactions/orm/adapter-options.js';
import { delayBeginsOf } from '../../transactions/orm/client-source.js';
import { openedHere } from '../../transactions/orm/delayed-begin.js';
import { guardedTx, mayRollBack } from '../../transactions/orm/guarded-tx.js';
import {
  assertAsynchronous,
  type TransactionDefaults,
  transactionDefaults,
} from '../../transactions/orm/known-connection.js';
import { knownDepth } from '../../transactions/orm/known-depth.js';
import { knownSession } from '../../transactions/orm/known-session.js';
import { knownPgClient } from '../../transactions/orm/pg-client.js';
import {
  type ErrorSource,
  guardClients,
  type KnownClients,
  knownClients,
} from '../../transactions/orm/pg-clients.js';
import { runTransaction, type TransactionToRun } from '../../transactions/orm/run-transaction.js';
import { openingOn, takeOpening } from '../../transactions/orm/transaction-opening.js';
import { ambientCoordinator } from '../../transactions/scope/ambient-coordinator.js';
import type { SqlDialect } from '../../transactions/sql/database-session.js';
import { KnownDatabase } from '../../transactions/sql/known-database.js';
import { connectionNameOf, LOCK_AWARE } from '../typeorm/known-data-source.js';
import { lockAwareDataSource } from '../typeorm/lock-aware-data-source.js';
import type { AdapterMethods, Body, SetTx, TransactionalAdapter } from './transactional-adapter.js';

/** Options for what `lockAwareAdapter` cannot always detect. */
export interface LockAwareAdapterOptions<Tx = unknown> {
  /** The `connectionName` of the plug-in, if there are several. It is used in messages and for `fence.connections`. */
  readonly connectionName?: string;
  /** @default known for TypeORM, Prisma, Drizzle, Knex, Kysely and pg-promise */
  readonly dialect?: SqlDialect;
  /**
   * Runs a statement in the transaction of an unknown ORM. Placeholders are `$1`, `$2`, … for PostgreSQL and `?` for
   * MySQL; each is used once and in order. @returns the rows, or the driver's result
   */
  readonly query?: (tx: Tx, sql: string, params: unknown[]) => Promise<unknown>;
  /**
   * The node-postgres pool, if the ORM does not expose it (Kysely, Prisma). The claim is then sent together with BEGIN,
   * and the clients get an 'error' listener, which Kysely does not add: without one, a time-out of the database ends
   * the process. `false` means that the ORM uses another driver.
   * @default known for TypeORM, Drizzle, Knex and pg-promise
   */
  readonly pool?: ErrorSource | false;
  /**
   * `false` for a driver that fails when the database closes its connection during a transaction, such as postgres.js.
   * The time-outs that do so are then not armed (`idleMs`, `totalMs`). @default known for Drizzle, otherwise true
   */
  readonly survivesDisconnect?: boolean;
}

const OPTIONS: OptionTable<LockAwareAdapterOptions<never>> = {
  ...ADAPTER_OPTIONS,
  pool: { check: poolOrFalse },
};

/**
 * Makes the transactions of a `@nestjs-cls/transactional` adapter known to the locks, for any ORM. Locks then last
 * until the transactions have ended, and guard their commit.
 *
 * @example
 * const adapter = lockAwareAdapter(new TransactionalAdapterTypeOrm({ dataSourceToken: DataSource }));
 * ClsModule.forRoot({ plugins: [new ClsPluginTransactional({ adapter })] })
 * @returns the same adapter
 * @throws LockConfigError if it is not an adapter, or an option is invalid
 */
export function lockAwareAdapter<A extends TransactionalAdapter>(
  adapter: A,
  options: LockAwareAdapterOptions<never> = {},
): A {
  if (typeof adapter?.optionsFactory !== 'function') {
    throw wrongArgument(
      'lockAwareAdapter takes an adapter of @nestjs-cls/transactional',
      adapter,
      'pass new TransactionalAdapterTypeOrm({ … }) or that of your ORM, and a DataSource to lockAwareDataSource',
    );
  }
  assertOptions(OPTIONS, options);
  const make = adapter.optionsFactory.bind(adapter);
  const coordinator = ambientCoordinator(); // from now on, transactions are seen
  if (options.connectionName !== undefined) coordinator.sees(options.connectionName);
  const unguarded = new Set<string>();
  adapter.optionsFactory = (connection: unknown, extra: unknown[]) => {
    const opened = connection ?? {};
    assertAsynchronous(opened);
    const covered = coverDataSource(opened, options.connectionName);
    const { connectionName = covered } = options;
    coordinator.sees(connectionName);
    const clients = givenClients(options.pool) ?? knownClients(opened);
    if (clients.source === 'out of reach') unguarded.add(connectionName ?? 'default');
    else if (clients.source !== undefined) guardClients(clients.source);
    const { survivesDisconnect = clients.survivesDisconnect } = options;
    return lockAwareMethods(make(connection, extra), opened, {
      ...options,
      ...(connectionName === undefined ? {} : { connectionName }),
      survivesDisconnect,
      isCovered: covered !== undefined,
    });
  };
  const bootstrap = adapter.onApplicationBootstrap?.bind(adapter);
  // The lock services are open at that time.
  adapter.onApplicationBootstrap = () => {
    for (const connection of unguarded) warnOfUnguardedClients(connection);
    unguarded.clear();
    return bootstrap?.();
  };
  return adapter;
}

/**
 * Puts transactions opened on a TypeORM data source directly, not through the transaction host, under the same locks
 * and connection name.
 * @returns that name; undefined if `connection` is not a data source
 */
function coverDataSource(connection: object, name: string | undefined): string | undefined {
  const { createQueryRunner, manager } = connection as Partial<DataSource>;
  if (typeof createQueryRunner !== 'function' || typeof manager !== 'object') return undefined;
  return connectionNameOf(
    lockAwareDataSource(
      connection as DataSource,
      name === undefined ? {} : { connectionName: name },
    ),
  );
}

function givenClients(pool: ErrorSource | false | undefined): KnownClients | undefined {
  if (pool === undefined) return undefined;
  return { source: pool === false ? undefined : pool, survivesDisconnect: true };
}

function warnOfUnguardedClients(connection: string): void {
  const timed = [...openLocks()].find(({ transactionOptions }) => transactionOptions.timeouts);
  timed?.report({ type: 'unguarded-clients', connection });
}

type DataSource = Parameters<typeof lockAwareDataSource>[0];

function lockAwareMethods(
  methods: AdapterMethods,
  connection: object,
  options: LockAwareAdapterOptions<never> & {
    readonly survivesDisconnect: boolean;
    /** Whether statements outside transactions are seen where they are sent. */
    readonly isCovered: boolean;
  },
): AdapterMethods {
  const coordinator = ambientCoordinator(); // from now on, transactions are seen
  /** Maps the objects of savepoints to their transactions. */
  const roots = new WeakMap<object, object>();
  /** The number of open savepoints in each transaction; they belong to its connection, whichever branch opened them. */
  const savepoints = new WeakMap<object, number>();
  const database = new KnownDatabase();
  const describe = (txOptions: unknown): TransactionToRun => ({
    ...transactionDefaults(connection),
    ...givenOptions(txOptions),
    ...(options.connectionName === undefined ? {} : { connection: options.connectionName }),
    isNew: true,
    isAmbient: (tx) => currentTxs().some((current) => current === tx || roots.get(current) === tx),
    depth: (tx) => Math.max(savepoints.get(tx) ?? 0, knownDepth(tx)),
    session: (tx, client) => knownSession(tx, options, database, client),
    survivesDisconnect: options.survivesDisconnect,
    delaysBegin: delayBeginsOf(options.pool || connection),
  });
  const guarded = (given: object): object => {
    const tx: object = guardedTx(given, connection, {
      assertTakes: (sql) => coordinator.assertTakes(tx, sql),
      mayRollBack: () => mayRollBack(tx),
    });
    return tx;
  };
  const wrapped: AdapterMethods & { readonly [LOCK_AWARE]: true } = {
    ...methods,
    [LOCK_AWARE]: true,
    wrapWithTransaction: async (txOptions: unknown, body: Body, setTx: SetTx) => {
      coordinator.assertNotFailed();
      return runTransaction<unknown>(describe(txOptions), (enter) => {
        let tx: object = {};
        const noteTx: SetTx = (given?: object) => {
          if (given !== undefined && given !== null) {
            openedHere()?.isOn(knownPgClient(given));
            tx = guarded(given);
          }
          setTx(given === undefined || given === null ? given : tx);
        };
        const entered = (): Promise<unknown> => {
          takeOpening(connection);
          return enter(tx, body);
        };
        const open = (): Promise<unknown> =>
          openingOn(connection, () => methods.wrapWithTransaction(txOptions, entered, noteTx));
        return inOwnContext(open, setTx);
      });
    },
    // Work of an abandoned or failed transaction must not reach the database.
    getFallbackInstance: () => {
      coordinator.assertNotFailed();
      if (!options.isCovered) coordinator.noteStatement(options.connectionName);
      return methods.getFallbackInstance() as unknown;
    },
  };
  const { wrapWithNestedTransaction } = methods;
  if (wrapWithNestedTransaction !== undefined) {
    wrapped.wrapWithNestedTransaction = async (txOptions, body, setTx, tx: object) => {
      const root = roots.get(tx) ?? tx;
      const noteTx: SetTx = (given?: object) => {
        if (given !== undefined && given !== tx) roots.set(given, root);
        setTx(given);
      };
      savepoints.set(root, (savepoints.get(root) ?? 0) + 1);
      try {
        return (await wrapWithNestedTransaction.call(
          methods,
          txOptions,
          body,
          noteTx,
          tx,
        )) as unknown;
      } finally {
        savepoints.set(root, (savepoints.get(root) ?? 1) - 1);
      }
    };
  }
  return wrapped;
}

/**
 * Gives each run of a restarted transaction its own context store, where the transaction host keeps the transaction.
 * Work left over from an earlier run must not use the transaction of a later one.
 */
function inOwnContext<R>(open: () => Promise<R>, setTx: SetTx): Promise<R> {
  return ClsServiceManager.getClsService().run({ ifNested: 'inherit' }, () =>
    open().finally(() => setTx(undefined)),
  );
}

interface OptionNames {
  readonly isolationLevel?: unknown;
  readonly timeout?: unknown;
}

/** The transaction host keeps its current transaction in the context, but not suspended ones. */
function currentTxs(): object[] {
  const cls = ClsServiceManager.getClsService();
  if (!cls.isActive()) return [];
  const store = cls.get() as Record<symbol, unknown>;
  return Object.getOwnPropertySymbols(store)
    .map((symbol) => store[symbol])
    .filter((value) => typeof value === 'object' || typeof value === 'function')
    .filter((value) => value !== null);
}

/** Reads these options under the names that the adapters use. */
function givenOptions(txOptions: unknown): TransactionDefaults {
  const { isolationLevel, timeout } = (txOptions ?? {}) as OptionNames;
  return {
    ...(typeof isolationLevel === 'string' ? { isolation: isolationLevel } : {}),
    ...(typeof timeout === 'number' ? { timeoutMs: timeout } : {}),
  };
}
