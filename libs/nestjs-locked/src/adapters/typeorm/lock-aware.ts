import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import { LockConfigError } from '../../core/lock.errors.js';
import {
  ambientCoordinator,
  type AmbientCoordinator,
} from '../../core/transactions/ambient-coordinator.js';
import { dialectOf, sessionOf } from '../../core/transactions/session-of.js';
import type { TransactionDescription } from '../../core/transactions/transaction-description.js';
import { watchRunner } from './watched-runner.js';

export interface LockAwareOptions {
  /** Tells several data sources apart: for messages, and for `fence.connections`. @default 'default' */
  readonly connectionName?: string;
}

type Isolation = Parameters<QueryRunner['startTransaction']>[0];
type Body = (manager: EntityManager) => Promise<unknown>;

/** Of data sources that are lock-aware already. */
const LOCK_AWARE = Symbol.for('nestjs-locked/LockAwareDataSource');

/**
 * Makes the transactions of a TypeORM `DataSource` known to the locks, whoever opens them, typeorm-transactional
 * included: locks last until they have ended, and guard their commit.
 *
 * Transactions opened by `dataSource.transaction` and `manager.transaction` can be restarted, and code inside of them
 * that asks for a lock is seen. A query runner that is driven by hand (`startTransaction`) guards and ends its
 * transaction, too, but code inside of it is not seen.
 *
 * @example TypeOrmModule.forRootAsync({ …, dataSourceFactory: async (options) => lockAware(new DataSource(options)) })
 * @returns the same data source
 * @throws LockConfigError if it is none
 */
export function lockAware<D extends DataSource>(dataSource: D, options: LockAwareOptions = {}): D {
  if (typeof dataSource?.createQueryRunner !== 'function' || dataSource.manager === undefined) {
    throw new LockConfigError('lockAware takes a TypeORM DataSource');
  }
  if (LOCK_AWARE in dataSource) return dataSource;
  Object.defineProperty(dataSource, LOCK_AWARE, { value: true });
  new LockAwareDataSource(dataSource, options).install();
  return dataSource;
}

class LockAwareDataSource {
  readonly #dataSource: DataSource;
  readonly #connection: string;
  readonly #coordinator: AmbientCoordinator = ambientCoordinator();
  /** The query runner that is created or started now belongs to a transaction that is seen already. */
  #opensWithCallback = false;

  constructor(dataSource: DataSource, { connectionName = 'default' }: LockAwareOptions) {
    this.#dataSource = dataSource;
    this.#connection = connectionName;
  }

  install(): void {
    this.#installCallbackForm(this.#dataSource.manager);
    this.#installRunners();
  }

  #installCallbackForm(manager: EntityManager): void {
    const original = manager.transaction.bind(manager) as (...args: unknown[]) => Promise<unknown>;
    // `dataSource.transaction` passes two arguments on, also if it was given the body alone.
    const transaction = (first?: Isolation | Body, second?: Body): Promise<unknown> => {
      const body = typeof first === 'function' ? first : second;
      if (body === undefined) return original(first); // lets TypeORM complain
      if (manager.queryRunner?.isTransactionActive === true) return original(first, second); // a savepoint
      const isolation = typeof first === 'string' ? first : undefined;
      const given = isolation === undefined ? [] : [isolation];
      return this.#coordinator.run(this.#describe(isolation, true), (enter) =>
        this.#openingWithCallback(() =>
          original(...given, (inner: EntityManager) => enter(inner, () => body(inner))),
        ),
      );
    };
    manager.transaction = transaction;
  }

  /** TypeORM creates and starts the query runner before it first waits for anything. */
  #openingWithCallback<T>(open: () => T): T {
    this.#opensWithCallback = true;
    try {
      return open();
    } finally {
      this.#opensWithCallback = false;
    }
  }

  #installRunners(): void {
    const original = this.#dataSource.createQueryRunner.bind(this.#dataSource);
    this.#dataSource.createQueryRunner = (...args) => {
      const runner = original(...args);
      if (!this.#opensWithCallback) {
        watchRunner(runner, {
          isSeen: () => this.#opensWithCallback,
          open: (isolation) =>
            this.#coordinator.open(this.#describe(isolation, false), runner.manager),
        });
        this.#installCallbackForm(runner.manager);
      }
      return runner;
    };
  }

  #describe(isolation: Isolation, isRestartable: boolean): TransactionDescription {
    const { options } = this.#dataSource;
    const level = isolation ?? ('isolationLevel' in options ? options.isolationLevel : undefined);
    const dialect = dialectOf(options.type);
    let wasContextual = false;
    return {
      connection: this.#connection,
      ...(typeof level === 'string' ? { isolation: level } : {}),
      isRestartable,
      isAmbient: (tx) => {
        const contextual = this.#contextualRunner();
        const { queryRunner } = tx as EntityManager;
        if (contextual === queryRunner) wasContextual = true;
        return !wasContextual || contextual === queryRunner;
      },
      depth: (tx) => {
        const { transactionDepth = 1 } = (tx as EntityManager).queryRunner as {
          transactionDepth?: number;
        };
        return transactionDepth - 1;
      },
      session: (tx) =>
        dialect === undefined
          ? undefined
          : sessionOf(dialect, (sql, params) => (tx as EntityManager).query(sql, params)),
    };
  }

  /** typeorm-transactional makes `manager` depend on the context: that of a suspended transaction is not there. */
  #contextualRunner(): QueryRunner | undefined {
    return this.#dataSource.manager.queryRunner;
  }
}
