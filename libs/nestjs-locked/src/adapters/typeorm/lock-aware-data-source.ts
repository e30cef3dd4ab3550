import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import { wrongArgument } from '../../core/arguments.js';
import { LockConfigError } from '../../core/lock.errors.js';
import { assertOptions } from '../../core/option.js';
import { BeginWatch } from '../../transactions/orm/begin-watch.js';
import { BegunSession } from '../../transactions/orm/begun-session.js';
import { closeConnectionOf } from '../../transactions/orm/broken-connection.js';
import { delayBeginsOf } from '../../transactions/orm/client-source.js';
import { watchCommit } from '../../transactions/orm/commit-watch.js';
import { openedHere, opening } from '../../transactions/orm/delayed-begin.js';
import { rollingBackFailedStarts } from '../../transactions/orm/failed-start.js';
import { guardRunner, isGuardableRunner } from '../../transactions/orm/guarded-runner.js';
import {
  depthOf,
  isConnectedRunner,
  knownDepth,
  watchLaterStarts,
} from '../../transactions/orm/known-depth.js';
import { knownPgClient, stateOfClient } from '../../transactions/orm/pg-client.js';
import { runTransaction } from '../../transactions/orm/run-transaction.js';
import { seesCommit } from '../../transactions/orm/seen-commits.js';
import { isForgottenBy } from '../../transactions/orm/sure-rollback.js';
import { takeOpening } from '../../transactions/orm/transaction-opening.js';
import {
  type AmbientCoordinator,
  ambientCoordinator,
  type EnterTransaction,
} from '../../transactions/scope/ambient-coordinator.js';
import type { TransactionDescription } from '../../transactions/scope/transaction-description.js';
import type { TransactionScope } from '../../transactions/scope/transaction-scope.js';
import type { DatabaseSession, TransactionQuery } from '../../transactions/sql/database-session.js';
import { KnownDatabase } from '../../transactions/sql/known-database.js';
import { dialectOf, sessionOf } from '../../transactions/sql/session-of.js';
import { isLockAware, markLockAware } from './known-data-source.js';
import { type LockAwareDataSourceOptions, OPTIONS } from './lock-aware-data-source.options.js';
import type { OpenNested } from './nested-callbacks.js';
import { watchRunner } from './watched-runner.js';

type Isolation = Parameters<QueryRunner['startTransaction']>[0];
type Body = (manager: EntityManager) => Promise<unknown>;

/** The property in which typeorm-transactional stores its name of a data source. */
const TRANSACTIONAL_NAME = '@transactional/data-source';

/** TypeORM drivers with a single query runner, where parallel transactions are savepoints of each other. */
const SHARES_ITS_RUNNER: ReadonlySet<string> = new Set([
  ...['better-sqlite3', 'capacitor', 'cordova', 'expo', 'mongodb'],
  ...['nativescript', 'react-native', 'sqlite', 'sqljs'],
]);

/**
 * Makes all transactions of a TypeORM `DataSource` known to the locks, including those of typeorm-transactional. Locks
 * then last until the transactions have ended, and guard their commit.
 *
 * Transactions opened by `dataSource.transaction` and `manager.transaction` can be restarted, and lock requests inside
 * them are seen. The transaction of a manually driven query runner (`startTransaction`) is also guarded and followed to
 * its end, but lock requests inside it are not seen.
 *
 * @example
 * const dataSourceFactory = async (options) => lockAwareDataSource(new DataSource(options));
 * TypeOrmModule.forRootAsync({ …, dataSourceFactory })
 *
 * @returns the same data source
 * @throws LockConfigError if it is not a data source, if its driver has a single query runner, if it is known under
 * another name, or if an option is invalid
 */
export function lockAwareDataSource<D extends DataSource>(
  dataSource: D,
  options: LockAwareDataSourceOptions = {},
): D {
  if (typeof dataSource?.createQueryRunner !== 'function' || dataSource.manager === undefined) {
    throw wrongArgument(
      'lockAwareDataSource takes a TypeORM DataSource',
      dataSource,
      'pass new DataSource({ … }), and an adapter to lockAwareAdapter',
    );
  }
  assertOptions(OPTIONS, options);
  const type = dataSource.options?.type;
  if (SHARES_ITS_RUNNER.has(type)) {
    throw new LockConfigError(
      `lockAwareDataSource cannot guard transactions of TypeORM's driver ${type}: all of them share one query runner, so that one may end inside another; leave lockAwareDataSource out`,
    );
  }
  if (isLockAware(dataSource, options)) return dataSource;
  new LockAwareDataSource(dataSource, markLockAware(dataSource, options), options).install();
  return dataSource;
}

class LockAwareDataSource {
  readonly #dataSource: DataSource;
  readonly #connection: string;
  readonly #runInTransaction: LockAwareDataSourceOptions['runInTransaction'];
  readonly #coordinator: AmbientCoordinator = ambientCoordinator();
  readonly #database = new KnownDatabase();
  /** Set while a query runner is created and started for a transaction that is already followed. */
  #opensWithCallback: { runner: QueryRunner | undefined } | undefined;

  constructor(dataSource: DataSource, connection: string, options: LockAwareDataSourceOptions) {
    this.#dataSource = dataSource;
    this.#connection = connection;
    this.#runInTransaction = options.runInTransaction?.bind(options);
  }

  install(): void {
    this.#coordinator.sees(this.#connection);
    this.#installCallbackForm(this.#dataSource.manager);
    this.#installRunners();
  }

  /** @param openNested opens the savepoints of the manager */
  #installCallbackForm(manager: EntityManager, openNested: OpenNested = (open) => open()): void {
    const original = manager.transaction.bind(manager) as (...args: unknown[]) => Promise<unknown>;
    // `dataSource.transaction` passes two arguments, even if it was given only the body.
    const transaction = async (first?: Isolation | Body, second?: Body): Promise<unknown> => {
      const body = typeof first === 'function' ? first : second;
      if (body === undefined) return original(first); // lets TypeORM complain
      const runner = manager.queryRunner;
      if (runner !== undefined && (runner.isTransactionActive || isForgottenBy(runner))) {
        return openNested(() => original(first, second)); // a savepoint
      }
      this.#assertGoesOn();
      const hasFailed = takeOpening(this.#dataSource);
      if (hasFailed !== undefined) {
        const known = this.#openingWithCallback(manager, () => original(first, second));
        known.catch(hasFailed);
        return known;
      }
      const isolation = typeof first === 'string' ? first : undefined;
      const given = isolation === undefined ? [] : [isolation];
      const guarded = (inner: EntityManager, enter: EnterTransaction<unknown>) => {
        openedHere()?.isOn(knownPgClient(inner));
        this.#guard(inner);
        return enter(inner, () => body(inner));
      };
      const obstacle = this.#hooksObstacle();
      const delaysBegin = delayBeginsOf(this.#dataSource);
      return runTransaction(
        { ...this.#describe(isolation, obstacle, runner), delaysBegin },
        (enter) =>
          this.#withNewHooks(() =>
            this.#openingWithCallback(manager, () =>
              original(...given, (inner: EntityManager) => guarded(inner, enter)),
            ),
          ),
      );
    };
    manager.transaction = transaction;
  }

  /**
   * Refuses statements of a failed transaction while it is open. Afterwards, the runner is either released and refuses
   * them itself, or its owner uses it for something else.
   */
  #guard(manager: EntityManager): void {
    const { queryRunner } = manager;
    if (!isGuardableRunner(queryRunner)) return;
    watchCommit(manager);
    guardRunner(queryRunner, (sql) => {
      if (this.#coordinator.openScope(manager)) this.#coordinator.assertTakes(manager, sql);
      else this.#coordinator.assertGoesOn();
    });
  }

  /**
   * Only with typeorm-transactional, where all work belongs to the transaction of its context and would be committed
   * separately after that transaction failed. Otherwise, code that does not use the transaction's manager works outside
   * it.
   */
  #assertGoesOn(): void {
    if (this.#transactionalName === undefined) this.#coordinator.assertGoesOn();
    else this.#coordinator.assertNotFailed();
  }

  get #transactionalName(): string | undefined {
    return (this.#dataSource as { [TRANSACTIONAL_NAME]?: string })[TRANSACTIONAL_NAME];
  }

  #hooksObstacle(): 'hooks' | undefined {
    const isKnown = this.#transactionalName !== undefined;
    return isKnown && this.#runInTransaction === undefined ? 'hooks' : undefined;
  }

  /**
   * Runs with new hooks: they belong to the surrounding call of typeorm-transactional, which does not know of several
   * runs.
   */
  #withNewHooks(run: () => Promise<unknown>): Promise<unknown> {
    const connectionName = this.#transactionalName;
    if (this.#runInTransaction === undefined || connectionName === undefined) return run();
    // SUPPORTS opens no transaction, and creates new hooks if there is no outer transaction.
    return this.#runInTransaction(run, { connectionName, propagation: 'SUPPORTS' });
  }

  /**
   * Marks the query runner opened now as followed: TypeORM creates and starts it synchronously. Runners that its
   * subscribers create and start meanwhile are not marked.
   */
  #openingWithCallback<T>({ queryRunner: runner }: EntityManager, open: () => T): T {
    const around = this.#opensWithCallback;
    this.#opensWithCallback = { runner };
    try {
      return open();
    } finally {
      this.#opensWithCallback = around;
    }
  }

  #installRunners(): void {
    const original = this.#dataSource.createQueryRunner.bind(this.#dataSource);
    this.#dataSource.createQueryRunner = (...args) => {
      // All code without a runner gets one here, even typeorm-transactional's repositories after their transaction.
      this.#assertGoesOn();
      const runner = rollingBackFailedStarts(original(...args));
      if (this.#opensWithCallback !== undefined && this.#opensWithCallback.runner === undefined) {
        this.#opensWithCallback.runner = runner;
        watchLaterStarts(runner, () => this.#coordinator.noteStatement(this.#connection));
        return runner;
      }
      const openNested = watchRunner(runner, {
        isSeen: () => this.#opensWithCallback?.runner === runner,
        open: (isolation, start) => this.#openByHand(runner, isolation, start),
      });
      this.#installCallbackForm(runner.manager, openNested);
      this.#noteStatements(runner);
      return runner;
    };
  }

  async #openByHand(
    runner: QueryRunner,
    isolation: Isolation,
    start: () => Promise<void>,
  ): Promise<TransactionScope> {
    delayBeginsOf(this.#dataSource); // from now on, its clients are visible
    const begin = new BeginWatch();
    const client = (): unknown => knownPgClient(runner.manager);
    begin.on(client()); // it may have been connected before
    const description = this.#describe(isolation, 'by-hand', runner);
    const session = (tx: object): DatabaseSession | undefined => {
      const made = description.session(tx);
      const close = (): Promise<void> => closeConnectionOf(tx);
      return made && new BegunSession(made, { connection: this.#connection, begin, client, close });
    };
    const shown = { connecting: () => {}, on: (one: unknown) => begin.on(one), isOn: () => {} };
    try {
      return await this.#coordinator.open({ ...description, session }, runner.manager, () =>
        opening(shown, start),
      );
    } finally {
      begin.begun();
    }
  }

  /** Repositories, query builders and `dataSource.query` send statements outside transactions through runners too. */
  #noteStatements(runner: QueryRunner): void {
    const query = runner.query.bind(runner) as (...args: unknown[]) => Promise<unknown>;
    runner.query = ((sql: string, ...more: unknown[]) => {
      // Not `isTransactionActive`, which is wrong after a hook has failed before BEGIN or SAVEPOINT was sent.
      if (depthOf(runner) === 0) this.#coordinator.noteStatement(this.#connection, sql);
      return query(sql, ...more);
    }) as QueryRunner['query'];
  }

  #describe(
    isolation: Isolation,
    notRestartable: TransactionDescription['notRestartable'],
    runner: QueryRunner | undefined,
  ): TransactionDescription {
    const { options } = this.#dataSource;
    const level = isolation ?? ('isolationLevel' in options ? options.isolationLevel : undefined);
    const dialect = dialectOf(options.type);
    let wasContextual = false;
    return {
      connection: this.#connection,
      isNew: true,
      isConnected: isConnectedRunner(runner),
      ...(typeof level === 'string' ? { isolation: level } : {}),
      ...(notRestartable === undefined ? {} : { notRestartable }),
      isAmbient: (tx) => {
        const contextual = this.#contextualRunner();
        const { queryRunner } = tx as EntityManager;
        if (contextual === queryRunner) wasContextual = true;
        return !wasContextual || contextual === queryRunner;
      },
      depth: knownDepth,
      seesCommit,
      close: (tx) => void closeConnectionOf(tx).catch(() => {}), // it is closed already
      session: (tx) => {
        if (dialect === undefined) return undefined;
        const query: TransactionQuery = (sql, params) => (tx as EntityManager).query(sql, params);
        const connection = stateOfClient(() => knownPgClient(tx));
        return sessionOf(dialect, query, this.#database, connection);
      },
    };
  }

  /** typeorm-transactional makes `manager` depend on the context, which does not have suspended transactions. */
  #contextualRunner(): QueryRunner | undefined {
    return this.#dataSource.manager.queryRunner;
  }
}
