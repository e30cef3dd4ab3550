import { describe, expect, it } from '@jest/globals';
import { NestFactory } from '@nestjs/core';
import {
  LockInTransactionError,
  LockLostError,
  LockNotAcquiredError,
  LockService,
  RedisLockModule,
} from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import {
  type DataSource,
  type EntityManager,
  EntitySchema,
  type EntitySubscriberInterface,
  type QueryRunner,
} from 'typeorm';
import type { EventEmitter } from 'node:events';
import { LOG_CONTEXT } from '../../libs/nestjs-locked/src/core/log-context.js';
import { afterTest } from '../support/after-test.js';
import { type TestDatabase, useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { RecordingLogger } from '../support/recording-logger.js';
import { useRedis } from '../support/shared-redis.js';
import { spyOnWarnings } from '../support/spy-on-warnings.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { useStock } from './stock.js';

describe('a query runner driven manually', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  type Locks = Awaited<ReturnType<typeof startLocks>>['locks'];

  async function start(
    subscriber: EntitySubscriberInterface = {},
  ): Promise<{ dataSource: DataSource; locks: Locks; runner: QueryRunner }> {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url, { fence: true });
    dataSource.subscribers.push(subscriber);
    return { dataSource, locks, runner: dataSource.createQueryRunner() };
  }

  const add = (runner: QueryRunner): Promise<unknown> =>
    runner.query(`UPDATE stock SET quantity = quantity + 1000 WHERE id = '${stock.product}'`);

  const told = (work: Promise<unknown>): Promise<unknown> =>
    work.then(
      () => 'done',
      (error: unknown) => error,
    );

  /** Calls `hook` only for the transaction with this number. */
  function once(hook: () => unknown, number = 1): () => Promise<void> {
    let calls = 0;
    return async () => {
      if (++calls === number) await hook();
    };
  }

  async function sellOn(runner: QueryRunner): Promise<void> {
    await runner.startTransaction();
    await stock.takeOne(runner.manager);
    await runner.commitTransaction();
  }

  /** Starts with a hook after the first COMMIT that lets a branch continue, and waits for it. */
  async function startWithBranch() {
    let branch: Promise<unknown> | undefined;
    const { opened: goesOn, open: goOn } = makeGate();
    const started = await start({
      afterTransactionCommit: once(async () => {
        goOn();
        await branch;
      }),
    });
    const branchAfterCommit = <T>(act: () => Promise<T>): Promise<T> => {
      const going = goesOn.then(act);
      branch = going;
      return going;
    };
    return { ...started, branchAfterCommit };
  }

  /** Asserts that the next transaction of the query runner is not committed if its lock is lost. */
  async function expectGuarded(runner: QueryRunner, locks: Locks): Promise<void> {
    const sale = locks.withLock(stock.key, async (lock) => {
      await runner.startTransaction();
      await stock.takeOne(runner.manager);
      await locks.forceRelease(stock.key);
      await eventually(() => expect(lock.isHeld).toBe(false));
      await runner.commitTransaction();
    });
    await expect(sale).rejects.toBeInstanceOf(LockLostError);
    await runner.release();
  }

  describe('a query runner that is released before its transaction has ended', () => {
    it.each(['with', 'without'])('accepts nothing from then on, %s a lock', async (how) => {
      const { locks, runner } = await start();
      const work = async (): Promise<unknown> => {
        await runner.startTransaction();
        await stock.takeOne(runner.manager);
        const released = runner.release();
        const late = await told(add(runner));
        await Promise.all([released, runner.release()]);
        return late;
      };
      const late = await (how === 'with' ? locks.withLock(stock.key, work) : work());
      expect((late as Error).constructor.name).toBe('QueryRunnerAlreadyReleasedError'); // the error of TypeORM
      expect(await stock.quantity()).toBe(100);
    });

    it('accepts nothing after its ROLLBACK has been answered either', async () => {
      const late: Promise<unknown>[] = [];
      const { runner } = await start({
        afterQuery: ({ query, queryRunner }) => {
          const addAfter = async (turns: number): Promise<unknown> => {
            for (let turn = 0; turn < turns; turn++) await Promise.resolve();
            return add(queryRunner);
          };
          if (query !== 'ROLLBACK') return;
          late.push(...Array.from({ length: 40 }, (_, turns) => told(addAfter(turns))));
        },
      });
      await runner.startTransaction();
      await runner.release();
      const errors = await Promise.all(late);
      expect(errors).toEqual(Array.from({ length: 40 }, () => expect.any(Error)));
      expect(await stock.quantity()).toBe(100);
    });

    it('does not wait for a statement that continues: its connection is closed', async () => {
      const { dataSource, runner } = await start();
      await runner.startTransaction();
      await stock.takeOne(runner.manager);
      const slow = told(runner.query('SELECT pg_sleep(120)'));
      const from = performance.now();
      await runner.release();
      expect(performance.now() - from).toBeLessThan(60_000);
      expect(await slow).toBeInstanceOf(Error);
      await dataSource.query('SELECT 1'); // the pool has a free connection
      expect(await stock.quantity()).toBe(100);
    });
  });

  describe('a query runner whose start fails in the hook after it', () => {
    const startFailing = () =>
      start({ afterTransactionStart: once(() => Promise.reject(new Error('not now'))) });

    it('has no open transaction under a lock, and is guarded in the next', async () => {
      const { locks, runner } = await startFailing();
      await locks.withLock(stock.key, async () => {
        await expect(runner.startTransaction()).rejects.toThrow('not now');
        expect(runner.isTransactionActive).toBe(false);
      });
      await expectGuarded(runner, locks);
      expect(await stock.quantity()).toBe(100);
    });

    it('may continue without one, as TypeORM lets it', async () => {
      const { runner } = await startFailing();
      await expect(runner.startTransaction()).rejects.toThrow('not now');
      await stock.takeOne(runner.manager);
      await runner.commitTransaction();
      await runner.release();
      expect(await stock.quantity()).toBe(99);
    });
  });

  describe('a query runner whose start has failed in a hook', () => {
    const fail = (): Promise<never> => Promise.reject(new Error('not now'));
    const hooks: [string, EntitySubscriberInterface][] = [
      ['before it', { beforeTransactionStart: fail }],
      [
        'before its BEGIN is sent',
        { beforeQuery: ({ query }) => (query.startsWith('START') ? fail() : undefined) },
      ],
      ['after it', { afterTransactionStart: fail }],
    ];

    it.each(hooks)(
      'logs a warning if its code continues under a fenced lock: %s',
      async (_, hook) => {
        const warnings = spyOnWarnings();
        const { locks, runner } = await start(hook);
        await locks.withLock(stock.key, async () => {
          await expect(runner.startTransaction()).rejects.toThrow('not now');
          await add(runner);
        });
        expect(warnings()).toEqual([expect.stringContaining('outside a transaction')]);
        await runner.release();
      },
    );

    it('may continue in the outer transaction without a warning', async () => {
      const warnings = spyOnWarnings();
      const { locks, runner } = await start({
        beforeTransactionStart: once(fail, 2),
      });
      await locks.withLock(stock.key, async () => {
        await runner.startTransaction();
        await expect(runner.startTransaction()).rejects.toThrow('not now');
        await add(runner);
        await runner.release();
      });
      expect(warnings()).toEqual([]);
      expect(await stock.quantity()).toBe(100);
    });
  });

  describe('a query runner that is used for a second transaction', () => {
    it('is guarded in it although a branch that began one too late was refused', async () => {
      const { locks, runner, branchAfterCommit } = await startWithBranch();
      let branch: Promise<unknown> | undefined;
      await locks.withLock(stock.key, () => {
        branch = branchAfterCommit(() => told(runner.startTransaction()));
        return sellOn(runner);
      });
      expect(await branch).toBeInstanceOf(LockInTransactionError);
      expect(runner.isTransactionActive).toBe(false);
      await expectGuarded(runner, locks);
      expect(await stock.quantity()).toBe(99);
    });

    it('is guarded in it although a hook has kept the first from beginning', async () => {
      const refuse = once(() => Promise.reject(new Error('not now')));
      const { locks, runner } = await start({
        beforeQuery: async ({ query }) => {
          if (query.startsWith('START')) await refuse();
        },
      });
      await expect(runner.startTransaction()).rejects.toThrow('not now');
      await expectGuarded(runner, locks);
      expect(await stock.quantity()).toBe(100);
    });

    it.each(['with', 'without'])('may nest callbacks in it, %s a lock', async (how) => {
      const { locks, runner } = await start();
      const nest = async (): Promise<void> => {
        await sellOn(runner);
        await runner.manager.transaction((outer) =>
          outer.transaction((inner) => stock.takeOne(inner)).then(() => stock.takeOne(outer)),
        );
      };
      await (how === 'with' ? locks.withLock(stock.key, nest) : nest());
      await runner.release();
      expect(await stock.quantity()).toBe(97);
    });

    it.each(['with', 'without'])(
      'may nest callbacks in a hook after it, %s a lock',
      async (how) => {
        const nest = (): Promise<void> =>
          runner.manager.transaction((outer) =>
            outer.transaction((inner) => stock.takeOne(inner)).then(() => stock.takeOne(outer)),
          );
        const { locks, runner } = await start({ afterTransactionCommit: once(nest) });
        const sell = (): Promise<void> => sellOn(runner);
        await (how === 'with' ? locks.withLock(stock.key, sell) : sell());
        await runner.release();
        expect(await stock.quantity()).toBe(97);
      },
    );

    it('accepts nothing during its end from a branch that a hook of the first has left behind', async () => {
      let late: Promise<unknown> | undefined;
      const { opened: goesOn, open: goOn } = makeGate();
      const first = once(() => {
        late = goesOn.then(() => told(add(runner)));
      });
      const second = once(async () => {
        goOn();
        await late;
      }, 2);
      const { locks, runner } = await start({
        afterTransactionCommit: async () => {
          await first();
          await second();
        },
      });
      await locks.withLock(stock.key, async () => {
        await sellOn(runner);
        await sellOn(runner);
      });
      expect(await late).toBeInstanceOf(LockInTransactionError);
      await runner.release();
      expect(await stock.quantity()).toBe(98);
    });

    it.each(['commitTransaction', 'rollbackTransaction'] as const)(
      'accepts nothing after %s that is not awaited, after one with a callback',
      async (end) => {
        const { locks, runner } = await start();
        const late = await locks.withLock(stock.key, async () => {
          await runner.manager.transaction((manager) => stock.takeOne(manager));
          await runner.startTransaction();
          const ended = runner[end]();
          const refused = await told(add(runner));
          await ended;
          return refused;
        });
        expect(late).toBeInstanceOf(LockInTransactionError);
        await runner.release();
        expect(await stock.quantity()).toBe(99);
      },
    );
  });

  it('a query runner under a lock without the fence is active as soon as it is requested', async () => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url);
    const runner = dataSource.createQueryRunner();
    /** As TypeORM does: begins and commits a transaction if none is active. */
    const work = async (): Promise<void> => {
      const isOwn = !runner.isTransactionActive;
      if (isOwn) await runner.startTransaction();
      await add(runner);
      if (isOwn) await runner.commitTransaction();
    };
    await locks.withLock(stock.key, () => Promise.all([work(), work()]));
    await runner.release();
    expect(await stock.quantity()).toBe(2_100);
  });

  it('a rollback that a branch requests after the COMMIT does not open the runner again', async () => {
    const { locks, runner, branchAfterCommit } = await startWithBranch();
    let branch: Promise<readonly unknown[]> | undefined;
    await locks.withLock(stock.key, () => {
      branch = branchAfterCommit(async () => [
        await told(runner.rollbackTransaction()),
        await told(add(runner)),
      ]);
      return sellOn(runner);
    });
    const [rollback, late] = (await branch) ?? [];
    expect((rollback as Error).constructor.name).toBe('TransactionNotStartedError');
    expect(late).toBeInstanceOf(LockInTransactionError);
    await runner.release();
    expect(await stock.quantity()).toBe(99);
  });

  describe('a query runner whose transaction is rolled back by a statement under a lock', () => {
    it.each<[string, (runner: QueryRunner) => Promise<unknown>]>([
      ['ROLLBACK', (runner) => runner.query('ROLLBACK')],
      ['ROLLBACK AND CHAIN', (runner) => runner.query('ROLLBACK AND CHAIN')],
      ['ROLLBACK, BEGIN', (runner) => runner.query('ROLLBACK').then(() => runner.query('BEGIN'))],
      [
        'ABORT and BEGIN on the client',
        async (runner) => {
          const client = (await runner.connect()) as { query(sql: string): Promise<unknown> };
          await client.query('ABORT');
          await client.query('BEGIN');
        },
      ],
    ])('accepts no other statement, and is not committed: %s', async (_, rollBack) => {
      const { locks, runner } = await start();
      const outcome = await locks.withLock(stock.key, async () => {
        await runner.startTransaction();
        await told(rollBack(runner));
        const late = await told(add(runner));
        const commit = await told(runner.commitTransaction());
        await runner.rollbackTransaction();
        return [late, commit];
      });
      const refused = expect.any(LockInTransactionError);
      expect(outcome).toEqual([refused, refused]);
      await sellOn(runner); // the query runner accepts the next transaction
      await runner.release();
      expect(await stock.quantity()).toBe(99);
    });

    it('does not end it through a stream either', async () => {
      const { locks, runner } = await start();
      const late = await locks.withLock(stock.key, async () => {
        await runner.startTransaction();
        const streamed = await told(runner.stream('COMMIT'));
        await runner.rollbackTransaction();
        return streamed;
      });
      expect(late).toBeInstanceOf(LockInTransactionError);
      await runner.release();
    });
  });

  it.each<[string, (dataSource: DataSource) => Promise<unknown>]>([
    [
      'with a callback',
      (dataSource) => dataSource.transaction((manager) => stock.takeOne(manager)),
    ],
    [
      'by hand',
      (dataSource) => {
        const runner = dataSource.createQueryRunner();
        return sellOn(runner).finally(() => runner.release());
      },
    ],
  ])(
    'a second transaction in the body of one driven manually is refused at its end, and the first one continues: %s',
    async (_, sellToo) => {
      const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
      const { locks } = await startLocks(redis.url, { fence: true, transactionTimeouts: false });
      const runner = dataSource.createQueryRunner();
      const second = await locks.withLock(stock.key, { leaseMs: 1_000, waitMs: 0 }, async () => {
        await runner.startTransaction();
        await stock.takeOne(runner.manager);
        const refused = await told(sellToo(dataSource));
        await runner.commitTransaction();
        return refused;
      });
      expect(second).toBeInstanceOf(LockNotAcquiredError);
      await runner.release();
      expect(await stock.quantity()).toBe(99);
    },
  );

  it('a transaction that is left open keeps its lock, and the log says why', async () => {
    const logger = new RecordingLogger();
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const root = RedisLockModule.forRoot({ connection: redis.url });
    const app = await NestFactory.createApplicationContext(root, { logger });
    afterTest(() => app.close());
    const runner = dataSource.createQueryRunner();
    await app.get(LockService).withLock(stock.key, () => runner.startTransaction());
    const warnings = (): string[] => logger.lines(LOG_CONTEXT).filter((line) => /^warn/.test(line));
    await eventually(() => expect(warnings()).toHaveLength(1));
    expect(warnings()).toEqual([expect.stringMatching(/a transaction .* under it has not ended$/)]);
    expect(await isHeld(redis.url, stock.key)).toBe(true);
    await runner.release();
    await eventually(async () => expect(await isHeld(redis.url, stock.key)).toBe(false));
  });
});

describe('without locks', () => {
  const postgres = usePostgres();

  const LINE = new EntitySchema<{ id?: number; line: string }>({
    name: 'Line',
    tableName: 'lines',
    columns: {
      id: { type: Number, primary: true, generated: true },
      line: { type: String },
    },
  });

  const save = (runner: QueryRunner, line: string): Promise<unknown> =>
    runner.manager.save(LINE, { line });

  /** Programs on one query runner that use no lock. */
  const PROGRAMS: Record<string, (runner: QueryRunner) => Promise<unknown>> = {
    'two that save at the same time share one transaction': async (runner) => {
      const saved = await Promise.allSettled([save(runner, 'a'), save(runner, 'b')]);
      return [saved.map(({ status }) => status), runner.isTransactionActive];
    },
    'a transaction is active as soon as it is requested': async (runner) => {
      const started = runner.startTransaction();
      const { isTransactionActive } = runner;
      await started;
      await runner.rollbackTransaction();
      return isTransactionActive;
    },
    'code that was started in a nested callback drives the runner later': async (runner) => {
      let later: Promise<unknown> | undefined;
      const { opened: goesOn, open: goOn } = makeGate();
      await runner.startTransaction();
      await runner.manager.transaction(async (manager) => {
        await manager.save(LINE, { line: 'nested' });
        later = goesOn.then(async () => {
          await runner.startTransaction();
          await save(runner, 'later');
          await runner.commitTransaction();
        });
      });
      await runner.commitTransaction();
      goOn();
      return later;
    },
    'nested callbacks continue after one whose hook has failed': async (runner) => {
      let starts = 0;
      runner.connection.subscribers.push({
        beforeTransactionStart: () => {
          if (++starts === 2) throw new Error('hook');
        },
      });
      const insert = (line: string): Promise<unknown> =>
        runner.query('INSERT INTO lines (line) VALUES ($1)', [line]);
      const fail = async (): Promise<void> => {
        await insert('failed');
        throw new Error('planned');
      };
      return runner.manager.transaction(async (manager) => {
        const nested = (work: () => Promise<unknown>): Promise<unknown> =>
          manager.transaction(work).catch((error: Error) => error.message);
        const told = [await nested(() => insert('a')), await nested(fail)];
        await nested(() => insert('b'));
        throw new Error(told.join());
      });
    },
    'its transactions leave nothing on the connection, also if a hook fails behind each COMMIT':
      async (runner) => {
        let isFailing = false;
        runner.connection.subscribers.push({
          afterTransactionCommit: () => {
            if (isFailing) throw new Error('hook');
          },
        });
        const client = (await runner.connect()) as EventEmitter;
        const round = async (): Promise<number> => {
          await runner.startTransaction();
          await save(runner, 'a').catch(() => {});
          await runner.commitTransaction().catch(() => {});
          return client.listenerCount('error');
        };
        const before = await round();
        const after = await round();
        isFailing = true;
        await round();
        return [after - before, (await round()) - before];
      },
    'nobody listens to its connection': async (runner) => {
      const client = (await runner.connect()) as EventEmitter;
      client.removeAllListeners('error');
      await runner.startTransaction();
      return client.listenerCount('error');
    },
    'its connection dies while it begins': async (runner) => {
      runner.connection.subscribers.push({
        afterTransactionStart: async () => {
          const [row] = (await runner.query('SELECT pg_backend_pid() AS pid')) as { pid: number }[];
          await postgres.query('SELECT pg_terminate_backend($1::int)', [row?.pid]);
          await eventually(() => expect(runner.isReleased).toBe(true));
        },
      });
      const client = (await runner.connect()) as EventEmitter;
      await runner.startTransaction();
      return client.listenerCount('error');
    },
    'a hook gives its connection back before its COMMIT': async (runner) => {
      runner.connection.subscribers.push({
        beforeQuery: async ({ query }) => {
          if (query === 'COMMIT') await runner.release();
        },
      });
      await runner.startTransaction();
      await save(runner, 'a');
      await runner.commitTransaction();
    },
    'a nested callback ends the transaction around it': async (runner) => {
      await runner.startTransaction();
      await save(runner, 'a');
      return runner.manager.transaction(async () => {
        await runner.commitTransaction();
        await runner.commitTransaction();
      });
    },
  };

  describe('a query runner driven manually without locks behaves as without the library', () => {
    it.each(Object.entries(PROGRAMS))('%s', async (_, program) => {
      const outcomes = [];
      for (const isLockAware of [false, true]) {
        await postgres.query('DROP TABLE IF EXISTS lines');
        await postgres.query('CREATE TABLE lines (id serial PRIMARY KEY, line text)');
        const dataSource = await openDataSource('postgres', postgres.settings, 1, {
          entities: [LINE],
        });
        const runner = (
          isLockAware ? lockAwareDataSource(dataSource) : dataSource
        ).createQueryRunner();
        const told = await program(runner).catch(
          (error: Error) => `${error.name}: ${error.message}`,
        );
        await runner.release();
        const lines = await postgres.query<{ line: string }>(
          'SELECT line FROM lines ORDER BY line',
        );
        outcomes.push({ told, lines: lines.map(({ line }) => line) });
      }
      expect(outcomes[1]).toEqual(outcomes[0]);
    });
  });
});

describe('released before the end', () => {
  const redis = useRedis();

  interface Way {
    readonly run: (
      dataSource: DataSource,
      sell: (manager: EntityManager) => Promise<unknown>,
    ) => Promise<unknown>;
    readonly subscriber?: EntitySubscriberInterface;
  }

  const ways: Record<string, Way> = {
    'in the body': {
      run: (dataSource, sell) =>
        dataSource.transaction(async (manager) => {
          await sell(manager);
          await manager.release();
        }),
    },
    'twice in a body that throws': {
      run: (dataSource, sell) =>
        dataSource.transaction(async (manager) => {
          await sell(manager);
          await Promise.all([manager.release(), manager.release()]);
          throw new Error('no money');
        }),
    },
    'in the hook before the COMMIT': {
      subscriber: { beforeTransactionCommit: ({ queryRunner }) => queryRunner.release() },
      run: (dataSource, sell) => dataSource.transaction(sell),
    },
    'that one has made oneself': {
      run: (dataSource, sell) => {
        const runner = dataSource.createQueryRunner();
        return runner.manager.transaction(async (manager) => {
          await sell(manager);
          await runner.release();
        });
      },
    },
  };

  function releasedTooEarly(type: 'postgres' | 'mysql', database: TestDatabase): void {
    const stock = useStock(database, type);

    it.each(Object.keys(ways))('has no transaction open in the pool: %s', async (name) => {
      const { run, subscriber = {} } = ways[name] as Way;
      const dataSource = lockAwareDataSource(await openDataSource(type, database.settings, 1));
      dataSource.subscribers.push(subscriber);
      const { locks } = await startLocks(redis.url);
      const sale = locks.withLock(stock.key, () =>
        run(dataSource, (manager) => stock.takeOne(manager)),
      );
      await expect(sale).rejects.toThrow();
      expect(await isHeld(redis.url, stock.key)).toBe(false);
      dataSource.subscribers.length = 0;
      await dataSource.transaction((manager) => manager.query('SELECT 1')); // would commit what was left open
      expect(await stock.quantity()).toBe(100);
    });
  }

  describe('a query runner that is released before its transaction with a callback has ended', () =>
    releasedTooEarly('postgres', usePostgres()));

  describeWithMariaDb('on MariaDB, a query runner that is released too early', () =>
    releasedTooEarly('mysql', useMariaDb()),
  );
});

describe('never committed', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  async function start() {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url, { fence: true });
    /** Runs the work on a query runner, and always releases it. */
    const onRunner = async <T>(work: (runner: QueryRunner) => Promise<T>): Promise<T> => {
      const runner = dataSource.createQueryRunner();
      try {
        return await work(runner);
      } finally {
        await runner.release();
      }
    };
    return { locks, onRunner };
  }

  async function sell(runner: QueryRunner): Promise<void> {
    await runner.startTransaction();
    await stock.takeOne(runner.manager);
    await runner.commitTransaction();
  }

  /** Starts two transactions, but commits only once. */
  async function sellHalf(runner: QueryRunner): Promise<void> {
    await runner.startTransaction();
    await stock.takeOne(runner.manager);
    await runner.startTransaction();
    await stock.takeOne(runner.manager);
    await runner.commitTransaction();
  }

  class Planned extends Error {}

  const swallowed = (work: Promise<unknown>): Promise<void> =>
    work.then(
      () => {},
      () => {},
    );

  describe('a transaction by hand that is released when only a nested one was committed', () => {
    it('makes its call fail at its end, and nothing is written', async () => {
      const { locks, onRunner } = await start();
      const sale = locks.withLock(stock.key, () => onRunner(sellHalf));
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      await expect(sale).rejects.toThrow(/^Nothing was written .* commit as often as you start/);
      expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([100, false]);
    });

    it('makes lock.run() fail once if the lock was acquired', async () => {
      const { locks, onRunner } = await start();
      const lock = await locks.acquire(stock.key);
      const sale = lock.run(() => onRunner(sellHalf));
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      await expect(lock.run(() => 'done')).resolves.toBe('done');
      await lock.release();
    });

    it.each<[string, (runner: QueryRunner) => Promise<unknown>]>([
      [
        'a statement that fails',
        (runner) => swallowed(runner.query('SELECT * FROM no_such_table')),
      ],
      [
        'a nested one with a callback',
        (runner) => runner.manager.transaction((nested) => stock.takeOne(nested)),
      ],
    ])('is also reported if it was followed by %s', async (_, last) => {
      const { locks, onRunner } = await start();
      const sale = locks.withLock(stock.key, () =>
        onRunner((runner) => sellHalf(runner).then(() => last(runner))),
      );
      await expect(sale).rejects.toThrow(/^Nothing was written/);
      expect(await stock.quantity()).toBe(100);
    });

    it('is reported by one call, not again by the outer call', async () => {
      const { locks, onRunner } = await start();
      await locks.withLock('around', async () => {
        const first = locks.withLock(stock.key, () => onRunner(sellHalf));
        await expect(first).rejects.toThrow(/^Nothing was written/);
        await locks.withLock(stock.key, () => onRunner(sell));
      });
      expect(await stock.quantity()).toBe(99);
    });

    it('is not reported by a call whose inner call has failed for another reason', async () => {
      const { locks, onRunner } = await start();
      await locks.withLock('around', async () => {
        const first = locks.withLock(stock.key, () =>
          onRunner(async (runner) => {
            await sellHalf(runner);
            throw new Planned();
          }),
        );
        await expect(first).rejects.toBeInstanceOf(Planned);
      });
    });

    it('is not reported if its code has tried once more, and that was committed', async () => {
      const { locks, onRunner } = await start();
      await locks.withLock(stock.key, async () => {
        await onRunner(sellHalf);
        await onRunner(sell);
      });
      expect(await stock.quantity()).toBe(99);
    });

    it('is reported for one transaction, although another one was reported before', async () => {
      const { locks, onRunner } = await start();
      const sale = locks.withLock('around', async () => {
        await swallowed(locks.withLock(stock.key, () => onRunner(sellHalf)));
        await onRunner(sellHalf);
      });
      await expect(sale).rejects.toThrow(/^Nothing was written/);
    });

    it('is not reported by the next lock.run() if the first one has failed', async () => {
      const { locks, onRunner } = await start();
      const lock = await locks.acquire(stock.key);
      const first = lock.run(() =>
        onRunner(async (runner) => {
          await sellHalf(runner);
          throw new Planned();
        }),
      );
      await expect(first).rejects.toBeInstanceOf(Planned);
      await expect(lock.run(() => 'done')).resolves.toBe('done');
      await lock.release();
    });

    it('does not hide the error of the body', async () => {
      const { locks, onRunner } = await start();
      const sale = locks.withLock(stock.key, () =>
        onRunner(async (runner) => {
          await sellHalf(runner);
          throw new Planned();
        }),
      );
      await expect(sale).rejects.toBeInstanceOf(Planned);
      expect(await stock.quantity()).toBe(100);
    });

    it.each<[string, (runner: QueryRunner) => Promise<unknown>]>([
      ['it was rolled back', (runner) => sellHalf(runner).then(() => runner.rollbackTransaction())],
      [
        'it was committed, too',
        (runner) => sellHalf(runner).then(() => runner.commitTransaction()),
      ],
      [
        'the nested one had a callback',
        async (runner) => {
          await runner.startTransaction();
          await runner.manager.transaction((nested) => stock.takeOne(nested));
        },
      ],
      [
        'a transaction with a callback was committed before it',
        async (runner) => {
          await runner.manager.transaction((manager) => stock.takeOne(manager));
          await runner.startTransaction();
        },
      ],
      [
        'a nested one was rolled back after it',
        async (runner) => {
          await sellHalf(runner);
          await runner.startTransaction();
          await runner.rollbackTransaction();
        },
      ],
    ])('is reported only if nobody knows of it: %s', async (_, work) => {
      const { locks, onRunner } = await start();
      await locks.withLock(stock.key, () => onRunner(work));
      expect(await isHeld(redis.url, stock.key)).toBe(false);
    });

    it('is silently rolled back without a lock, as with TypeORM alone', async () => {
      const { onRunner } = await start();
      await onRunner(sellHalf);
      expect(await stock.quantity()).toBe(100);
    });
  });
});

describe('disposed of', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  /** Sells two pieces by hand, the second optionally in a nested transaction, and leaves the end to disposal. */
  async function start() {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url, { fence: true });
    const sent: string[] = [];
    dataSource.subscribers.push({ beforeQuery: ({ query }) => void sent.push(query) });
    const sell = async (isNested: boolean): Promise<void> => {
      const runner = dataSource.createQueryRunner();
      await runner.startTransaction();
      await stock.takeOne(runner);
      if (isNested) await runner.startTransaction();
      await stock.takeOne(runner);
      sent.length = 0;
      await runner[Symbol.asyncDispose](); // as at the end of `await using runner`
    };
    return { locks, sell, sent };
  }

  describe('a query runner driven manually and disposed of', () => {
    it.each([false, true])('sends only the COMMIT without a lock, nested: %s', async (isNested) => {
      const { sell, sent } = await start();
      await sell(isNested);
      expect(sent).toEqual(['COMMIT']);
      expect(await stock.quantity()).toBe(98);
    });

    it('is committed under a lock', async () => {
      const { locks, sell } = await start();
      await locks.withLock(stock.key, () => sell(false));
      expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([98, false]);
    });

    it('fails under a lock while a nested transaction is open, and is rolled back', async () => {
      const { locks, sell } = await start();
      const sale = locks.withLock(stock.key, () => sell(true));
      await expect(sale).rejects.toThrow(
        /a nested transaction \(a savepoint\) is still open in it/,
      );
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([100, false]);
    });
  });
});
