import { describe, expect, it } from '@jest/globals';
import { LockLostError } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import {
  type DataSource,
  type EntityManager,
  type EntitySubscriberInterface,
  type QueryRunner,
  QueryRunnerProviderAlreadyReleasedError,
} from 'typeorm';
import { setTimeout as sleep } from 'node:timers/promises';
import { type TestDatabase, useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { spyOnWarnings } from '../support/spy-on-warnings.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { byHand, type OpensTransaction, withCallback, type Work } from './opened-transaction.js';
import { useStock } from './stock.js';

describe('after the answer to the COMMIT', () => {
  const redis = useRedis();

  const FORMS: Record<string, OpensTransaction> = {
    'with a callback': withCallback,
    'by hand': byHand(),
  };

  function describeHooks(type: 'postgres' | 'mysql', database: TestDatabase): void {
    const stock = useStock(database, type);

    const sell = async (open: OpensTransaction, hook: Work) => {
      const dataSource = lockAwareDataSource(await openDataSource(type, database.settings));
      const { locks } = await startLocks(redis.url, { fence: true });
      dataSource.subscribers.push({
        afterQuery: async ({ query, queryRunner }) => {
          if (query === 'COMMIT') await hook(queryRunner);
        },
      });
      return locks.withLock(stock.key, () => open(dataSource, (runner) => stock.takeOne(runner)));
    };
    const expectSold = async (): Promise<void> =>
      expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([99, false]);

    it.each(Object.entries(FORMS))(
      'that fails causes no doubt: a transaction %s',
      async (_, open) => {
        const sale = sell(open, () => Promise.reject(new Error('no metrics')));
        await expect(sale).rejects.toThrow(/^no metrics/);
        await expectSold();
      },
    );

    it.each(Object.entries(FORMS))(
      'that fails as if it had been refused does not change what is committed: a transaction %s',
      async (_, open) => {
        const dataSource = lockAwareDataSource(await openDataSource(type, database.settings));
        // Marks a data source of typeorm-transactional: after a rollback, what its body begins is refused for a while.
        Object.assign(dataSource, { '@transactional/data-source': 'default' });
        const { locks } = await startLocks(redis.url, { fence: true });
        dataSource.subscribers.push({
          afterQuery: ({ query }) =>
            query === 'COMMIT'
              ? Promise.reject(Object.assign(new Error('known already'), { code: '23505' }))
              : undefined,
        });
        const ended = makeGate();
        let later: Promise<unknown> | undefined;
        const sale = locks.withLock(stock.key, () =>
          open(dataSource, (runner) => {
            later = ended.opened.then(() => dataSource.createQueryRunner().release());
            return stock.takeOne(runner);
          }),
        );
        await expect(sale).rejects.toThrow(/^known already/);
        ended.open();
        await expect(later).resolves.toBeUndefined();
        await expectSold();
      },
    );

    it('that releases the connection by hand causes no doubt', async () => {
      await sell(FORMS['by hand'] as OpensTransaction, (runner) => runner.release());
      await expectSold();
    });
  }

  describe('on PostgreSQL, a hook after the answer to the COMMIT', () =>
    describeHooks('postgres', usePostgres()));

  describeWithMariaDb('on MariaDB, a hook behind the answer to the COMMIT', () =>
    describeHooks('mysql', useMariaDb()),
  );
});

describe('hooks of subscribers', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  const HOOKS = ['afterTransactionCommit', 'afterTransactionRollback'] as const;

  class Planned extends Error {}

  /** What the hook does with the query runner, and how many pieces it sells. */
  const IN_HOOK: Record<string, [sold: number, act: (runner: QueryRunner) => Promise<unknown>]> = {
    'begins and commits by hand': [
      1,
      async (runner) => {
        await runner.startTransaction();
        await stock.takeOne(runner.manager);
        await runner.commitTransaction();
      },
    ],
    'begins and rolls back by hand': [
      0,
      async (runner) => {
        await runner.startTransaction();
        await stock.takeOne(runner.manager);
        await runner.rollbackTransaction();
      },
    ],
    'opens one with a callback': [
      1,
      ({ manager }) => manager.transaction((inner) => stock.takeOne(inner)),
    ],
    'opens one with a callback, and a nested one': [
      1,
      ({ manager }) =>
        manager.transaction((inner) => inner.transaction((nested) => stock.takeOne(nested))),
    ],
    'opens one with a callback that fails in an open savepoint': [
      0,
      ({ manager }) =>
        manager
          .transaction(async (inner) => {
            await stock.takeOne(inner);
            await inner.queryRunner?.startTransaction();
            throw new Planned();
          })
          .catch(expectPlanned),
    ],
  };

  type Work = (manager: EntityManager) => Promise<void>;

  /** The ways to open the first transaction and the one after it. */
  const FIRST: Record<
    string,
    (dataSource: DataSource, runner: QueryRunner, work: Work) => Promise<void>
  > = {
    'by hand': async (_, runner, work) => {
      await runner.startTransaction();
      try {
        await work(runner.manager);
        await runner.commitTransaction();
      } catch (error) {
        await runner.rollbackTransaction();
        throw error;
      }
    },
    'with a callback on a query runner of its own': (_, { manager }, work) =>
      manager.transaction(work),
    'with a callback': (dataSource, _, work) => dataSource.transaction(work),
  };

  const HOW = ['without a lock', 'under a lock'] as const;

  async function start(how: (typeof HOW)[number], poolSize: number) {
    const dataSource = lockAwareDataSource(
      await openDataSource('postgres', postgres.settings, poolSize),
    );
    const { locks } = await startLocks(redis.url, { fence: true });
    const call = <T>(work: () => Promise<T>): Promise<T> =>
      how === 'without a lock' ? work() : locks.withLock(stock.key, work);
    return { dataSource, call };
  }

  /** Calls `act` once, in the hook after the first transaction. */
  function actOnce(
    { subscribers }: DataSource,
    hook: string,
    act: (runner: QueryRunner) => unknown,
  ): void {
    let isDone = false;
    const subscriber: EntitySubscriberInterface = {
      [hook]: ({ queryRunner }: { readonly queryRunner: QueryRunner }) => {
        if (isDone || queryRunner.isTransactionActive) return undefined;
        isDone = true;
        return act(queryRunner);
      },
    };
    subscribers.push(subscriber);
  }

  /** Sells one piece, and then fails if the hook is the one after a rollback. */
  const firstOf =
    (hook: string): Work =>
    async (manager) => {
      await stock.takeOne(manager);
      if (hook === 'afterTransactionRollback') throw new Planned();
    };

  const expectPlanned = (error: unknown): void => expect(error).toBeInstanceOf(Planned);
  const leftAfter = (hook: string): number => (hook === 'afterTransactionCommit' ? 99 : 100);

  describe.each(HOOKS)('%s', (hook) => {
    describe.each(Object.entries(FIRST))('of a transaction %s', (name, open) => {
      describe.each(Object.entries(IN_HOOK))('%s', (what, [sold, act]) => {
        // There, without a lock, TypeORM returns a connection to the pool that is still in a transaction.
        const isTypeOrms = name === 'with a callback' && what.endsWith('in an open savepoint');
        it.each(isTypeOrms ? HOW.slice(1) : HOW)('%s', async (how) => {
          const { dataSource, call } = await start(how, 2);
          let inHook: Promise<unknown> | undefined;
          actOnce(dataSource, hook, (runner) => (inHook = act(runner)));
          const runner = dataSource.createQueryRunner();
          await call(async () => {
            const first = open(dataSource, runner, firstOf(hook));
            await (hook === 'afterTransactionRollback' ? first.catch(expectPlanned) : first);
            await open(dataSource, runner, (manager) => stock.takeOne(manager));
          });
          await inHook;
          expect([inHook !== undefined, runner.isTransactionActive]).toEqual([true, false]);
          await runner.release();
          expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([
            leftAfter(hook) - sold - 1,
            false,
          ]);
        });
      });
    });

    it.each(HOW)(
      'is not awaited with its next transaction, which is not written: %s',
      async (how) => {
        const { dataSource, call } = await start(how, 1);
        let inHook: Promise<unknown> | undefined;
        actOnce(dataSource, hook, ({ manager }) => {
          inHook = manager
            .transaction((inner) =>
              inner.query('UPDATE stock SET quantity = 0 WHERE id = $1', [stock.product]),
            )
            .catch((error: unknown) => error);
        });
        const first = call(() => dataSource.transaction(firstOf(hook)));
        await (hook === 'afterTransactionRollback' ? first.catch(expectPlanned) : first);
        expect(await inHook).toBeInstanceOf(QueryRunnerProviderAlreadyReleasedError);
        expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([
          leftAfter(hook),
          false,
        ]);
      },
    );

    it.each(HOW)(
      'begins a transaction that continues after it, with a nested one: %s',
      async (how) => {
        const { dataSource, call } = await start(how, 1);
        actOnce(dataSource, hook, (runner) => runner.startTransaction());
        const runner = dataSource.createQueryRunner();
        await call(async () => {
          await runner.startTransaction();
          await stock.takeOne(runner.manager);
          if (hook === 'afterTransactionRollback') await runner.rollbackTransaction();
          else await runner.commitTransaction();
          await runner.startTransaction();
          await stock.takeOne(runner.manager);
          await runner.commitTransaction();
          await runner.commitTransaction();
        });
        await runner.release();
        expect(await stock.quantity()).toBe(leftAfter(hook) - 1);
      },
    );
  });

  describe('afterTransactionCommit', () => {
    it.each(Object.keys(FIRST))(
      'may commit the next one after an unanswered statement, and continue for longer than a lease: %s',
      async (name) => {
        const dataSource = lockAwareDataSource(
          await openDataSource('postgres', postgres.settings, 2),
        );
        const { locks } = await startLocks(redis.url, {
          leaseMs: 1_000,
          transactionTimeouts: false,
        });
        const seen: unknown[] = [];
        actOnce(dataSource, 'afterTransactionCommit', async (runner) => {
          await runner.query('BEGIN');
          const slow = runner.query('SELECT pg_sleep(0.2)');
          await runner.query('COMMIT');
          await slow;
          await sleep(2_000);
          seen.push(await runner.query('SELECT 1 AS one'));
        });
        const runner = dataSource.createQueryRunner();
        await locks.withLock(stock.key, () =>
          FIRST[name]?.(dataSource, runner, (manager) => stock.takeOne(manager)),
        );
        await runner.release();
        expect([seen, await stock.quantity()]).toEqual([[[{ one: 1 }]], 99]);
      },
    );
  });
});

describe('a second transaction on the same query runner', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  const HOOKS = ['afterTransactionCommit', 'afterTransactionRollback'] as const;

  type Hook = (event: { readonly queryRunner: QueryRunner }) => Promise<unknown>;

  /** Calls the hook after the first transaction. */
  async function start(name: (typeof HOOKS)[number], hook: Hook) {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url, { fence: true });
    let calls = 0;
    const subscriber: EntitySubscriberInterface = {
      [name]: (event: { readonly queryRunner: QueryRunner }) =>
        !event.queryRunner.isTransactionActive && ++calls === 1 ? hook(event) : undefined,
    };
    dataSource.subscribers.push(subscriber);
    return { dataSource, locks };
  }

  async function sellOn(runner: QueryRunner): Promise<void> {
    await runner.startTransaction();
    await stock.takeOne(runner.manager);
    await runner.commitTransaction();
  }

  const told = (work: Promise<unknown>): Promise<unknown> =>
    work.then(
      () => 'done',
      (error: unknown) => error,
    );

  const left = (hook: string): number => (hook === 'afterTransactionCommit' ? 99 : 100);

  describe('a second transaction that a hook after the end begins on the same query runner', () => {
    /** Runs the first transaction, which sells one piece or is rolled back. */
    const runFirst = async (hook: string, runner: QueryRunner): Promise<void> => {
      await runner.startTransaction();
      await stock.takeOne(runner.manager);
      if (hook === 'afterTransactionCommit') await runner.commitTransaction();
      else await runner.rollbackTransaction();
    };

    it.each(HOOKS)('by hand is guarded: %s', async (hook) => {
      let lose: () => Promise<void> = () => Promise.resolve();
      let inHook: unknown;
      const { dataSource, locks } = await start(hook, async ({ queryRunner }) => {
        inHook = await told(
          (async () => {
            await queryRunner.startTransaction();
            await stock.takeOne(queryRunner.manager);
            await lose();
            await queryRunner.commitTransaction();
          })(),
        );
        if (queryRunner.isTransactionActive) await queryRunner.rollbackTransaction();
      });
      const runner = dataSource.createQueryRunner();
      const work = locks.withLock(stock.key, async (lock) => {
        lose = async () => {
          await locks.forceRelease(stock.key);
          await eventually(() => expect(lock.isHeld).toBe(false));
        };
        await runFirst(hook, runner);
      });
      await told(work);
      await runner.release();
      expect(inHook).toBeInstanceOf(LockLostError);
      expect(await stock.quantity()).toBe(left(hook));
    });

    it.each(HOOKS)('by hand is committed, and so is the next one: %s', async (hook) => {
      const { dataSource, locks } = await start(hook, ({ queryRunner }) => sellOn(queryRunner));
      const runner = dataSource.createQueryRunner();
      await locks.withLock(stock.key, async () => {
        await runFirst(hook, runner);
        await sellOn(runner);
      });
      await runner.release();
      expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([
        left(hook) - 2,
        false,
      ]);
    });

    it.each(HOOKS)('by hand may continue after the hook: %s', async (hook) => {
      const { dataSource, locks } = await start(hook, async ({ queryRunner }) => {
        await queryRunner.startTransaction();
        await stock.takeOne(queryRunner.manager);
      });
      const runner = dataSource.createQueryRunner();
      await locks.withLock(stock.key, () => runFirst(hook, runner));
      expect(await isHeld(redis.url, stock.key)).toBe(true); // until the second transaction has ended
      await runner.commitTransaction();
      expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([
        left(hook) - 1,
        false,
      ]);
      await runner.release();
    });

    it.each(HOOKS)('of a transaction with a callback logs a warning: %s', async (hook) => {
      const { dataSource, locks } = await start(hook, ({ queryRunner }) => sellOn(queryRunner));
      const warnings = spyOnWarnings();
      const sell = (): Promise<void> =>
        dataSource.transaction(async (manager) => {
          await manager.transaction((nested) => stock.takeOne(nested));
          if (hook === 'afterTransactionRollback') throw new Error('no money');
        });
      await told(locks.withLock(stock.key, sell));
      expect(warnings()).toEqual([expect.stringContaining('outside a transaction')]);
    });
  });
});

describe('a nested transaction', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  /** Opens a data source whose hook after the first nested commit throws. */
  async function start() {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url, { fence: true });
    let calls = 0;
    dataSource.subscribers.push({
      afterTransactionCommit: () => {
        if (calls++ === 0) throw new Error('no mail server');
      },
    });
    const runner = dataSource.createQueryRunner();
    const sellTwo = async (): Promise<void> => {
      await runner.startTransaction();
      await stock.takeOne(runner);
      await runner.startTransaction();
      await stock.takeOne(runner);
      await expect(runner.commitTransaction()).rejects.toThrow('no mail server');
      await runner.commitTransaction();
    };
    return { runner, locks, sellTwo };
  }

  describe('a nested transaction by hand whose commit is done while its hook still runs', () => {
    it.each(['under a lock', 'without one'])(
      'is over: its transaction commits %s',
      async (where) => {
        const { runner, locks, sellTwo } = await start();
        await (where === 'under a lock' ? locks.withLock(stock.key, sellTwo) : sellTwo());
        await runner.release();
        expect([await isHeld(redis.url, stock.key), await stock.quantity()]).toEqual([false, 98]);
      },
    );

    it('does not leave the next transaction on its runner unguarded', async () => {
      const { runner, locks, sellTwo } = await start();
      await sellTwo();
      const sale = locks.withLock(stock.key, async (lock) => {
        await runner.startTransaction();
        await stock.takeOne(runner);
        await locks.forceRelease(stock.key);
        await eventually(() => expect(lock.isHeld).toBe(false));
        await runner.commitTransaction();
      });
      await expect(sale).rejects.toBeInstanceOf(LockLostError);
      await runner.release();
      expect(await stock.quantity()).toBe(98);
    });
  });

  it('several nested transactions by hand may follow each other under a lock', async () => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url, { fence: true });
    const runner = dataSource.createQueryRunner();
    await locks.withLock(stock.key, async () => {
      await runner.startTransaction();
      for (let i = 0; i < 2; i++) {
        await runner.startTransaction();
        await stock.takeOne(runner);
        await runner.commitTransaction();
      }
      await runner.commitTransaction();
    });
    await runner.release();
    expect(await stock.quantity()).toBe(98);
  });
});

describe('a COMMIT that nobody awaits', () => {
  const redis = useRedis();

  /** Longer than any healthy COMMIT takes. */
  const LEASE_MS = 20_000;

  function unawaitedCommit(type: 'postgres' | 'mysql', database: TestDatabase): void {
    const stock = useStock(database, type);

    it('does not stall', async () => {
      const dataSource = lockAwareDataSource(await openDataSource(type, database.settings, 1));
      let isFirst = true;
      const commitsAsWell = async (runner: QueryRunner): Promise<void> => {
        if (!isFirst) return;
        isFirst = false;
        void runner.commitTransaction().catch(() => {});
        await runner.query('SELECT 1').catch(() => {});
      };
      dataSource.subscribers.push({
        beforeTransactionCommit: ({ queryRunner }) => commitsAsWell(queryRunner),
      });
      const { locks } = await startLocks(redis.url, { leaseMs: LEASE_MS });
      const from = performance.now();
      await locks.withLock(stock.key, () =>
        dataSource.transaction((manager) => stock.takeOne(manager)),
      );
      expect(performance.now() - from).toBeLessThan(LEASE_MS / 2);
      expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([99, false]);
    });
  }

  describe('a COMMIT that a hook of TypeORM sends and does not await, beside the one of the transaction', () =>
    unawaitedCommit('postgres', usePostgres()));

  describeWithMariaDb('on MariaDB, a COMMIT that a hook does not await', () =>
    unawaitedCommit('mysql', useMariaDb()),
  );
});
