import { describe, expect, it } from '@jest/globals';
import { LockInTransactionError } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { DataSource, EntitySubscriberInterface, QueryRunner } from 'typeorm';
import { type TestDatabase, useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();

/** A shop with its own database. */
function useShop(type: 'postgres' | 'mysql', database: TestDatabase) {
  const stock = useStock(database, type);
  return {
    stock,
    /** Whether the lock is held, and the remaining quantity. */
    state: async () => [await isHeld(redis.url, stock.key), await stock.quantity()],
    /** Opens a data source with this subscriber of the application. */
    open: async (subscriber: EntitySubscriberInterface, poolSize?: number) => {
      const dataSource = lockAwareDataSource(
        await openDataSource(type, database.settings, poolSize),
      );
      dataSource.subscribers.push(subscriber);
      const { locks } = await startLocks(redis.url, { fence: {} });
      return {
        dataSource,
        locks,
        /** Sells one piece in a transaction under the lock. */
        sell: () =>
          locks.withLock(stock.key, () =>
            dataSource.transaction((manager) => stock.takeOne(manager)),
          ),
        /** Sells one piece, but does not commit. The lock waits for the COMMIT. */
        sellByHand: (runner: QueryRunner) =>
          locks.withLock(stock.key, async () => {
            await runner.startTransaction();
            await stock.takeOne(runner);
          }),
      };
    },
  };
}

const postgres = usePostgres();
const { stock, state, open } = useShop('postgres', postgres);

const fail = (): Promise<never> => Promise.reject(new Error('no mail server'));

/** A subscriber that sends another statement around the COMMIT, on the same connection. */
const around = (hook: 'beforeQuery' | 'afterQuery'): EntitySubscriberInterface => ({
  [hook]: async ({ query, queryRunner }: { query: string; queryRunner: QueryRunner }) => {
    if (query === 'COMMIT') await queryRunner.query('SELECT 1');
  },
});

describe('a subscriber that sends a statement', () => {
  it.each(['beforeQuery', 'afterQuery'] as const)(
    'in the middle of the COMMIT (%s) does not put it in doubt',
    async (hook) => {
      const { sell } = await open(around(hook));
      await sell();
      expect(await state()).toEqual([false, 99]);
    },
  );
});

describe('a subscriber that opens a second transaction', () => {
  type Take = (dataSource: DataSource, fails?: boolean) => Promise<void>;
  const forms: Record<string, Take> = {
    'with a callback': (dataSource, fails = false) =>
      dataSource.transaction(async (manager) => {
        await stock.takeOne(manager);
        if (fails) await fail();
      }),
    'by hand': async (dataSource, fails = false) => {
      const runner = dataSource.createQueryRunner();
      try {
        await runner.startTransaction();
        await stock.takeOne(runner);
        if (fails) await runner.rollbackTransaction();
        else await runner.commitTransaction();
      } finally {
        await runner.release();
      }
    },
  };

  /** @returns the outcome of the second transaction, and the remaining quantity */
  async function takeTwo(hook: string, first: string, second: string): Promise<unknown[]> {
    let calls = 0;
    let inHook: unknown;
    const isRolledBack = hook.endsWith('Rollback');
    const { dataSource, locks } = await open({
      [hook]: async () => {
        if (calls++ > 0) return;
        inHook = await forms[second]?.(dataSource).then(
          () => 'done',
          (error: unknown) => error,
        );
      },
    });
    const done = locks.withLock(stock.key, () => forms[first]?.(dataSource, isRolledBack));
    await done.catch((error: unknown) => expect(error).toEqual(new Error('no mail server')));
    return [inHook, await stock.quantity()];
  }

  const pairs = Object.keys(forms).flatMap((first) =>
    Object.keys(forms).map((second) => [second, first] as const),
  );

  it.each(pairs)(
    '%s, before the end of one %s, is refused at once because it is nested',
    async (second, first) => {
      const refused = expect.any(LockInTransactionError);
      expect(await takeTwo('beforeTransactionCommit', first, second)).toEqual([refused, 99]);
      expect(await takeTwo('beforeTransactionRollback', first, second)).toEqual([refused, 99]);
    },
  );

  it.each(pairs)('%s, before or after one %s, does not wait for it', async (second, first) => {
    expect(await takeTwo('afterTransactionCommit', first, second)).toEqual(['done', 98]);
    expect(await takeTwo('afterTransactionRollback', first, second)).toEqual(['done', 97]);
    expect(await takeTwo('beforeTransactionStart', first, second)).toEqual(['done', 95]);
    expect(await takeTwo('afterTransactionStart', first, second)).toEqual(['done', 93]);
  });

  it('by hand, before the start of one with a callback, is guarded like any other', async () => {
    let runner: QueryRunner | undefined;
    let inHook: unknown;
    const { dataSource, sell } = await open({
      beforeTransactionStart: async () => {
        if (runner !== undefined) return;
        runner = dataSource.createQueryRunner(); // before the first await
        await runner.startTransaction();
        await stock.takeOne(runner);
        inHook = await runner.query('COMMIT').catch((error: unknown) => error);
        await runner.release();
      },
    });
    await sell();
    const refused = expect.any(LockInTransactionError);
    expect([inHook, await stock.quantity()]).toEqual([refused, 99]);
  });

  it('in the middle of one by hand is refused at once because it is nested', async () => {
    const refused = expect.any(LockInTransactionError);
    let inHook: unknown;
    const { dataSource, locks } = await open({
      afterQuery: async ({ query }) => {
        if (!query.startsWith('UPDATE stock') || inHook !== undefined) return;
        inHook = 'asked';
        inHook = await forms['with a callback']?.(dataSource).catch((error: unknown) => error);
      },
    });
    await locks.withLock(stock.key, () => forms['by hand']?.(dataSource));
    expect([inHook, await stock.quantity()]).toEqual([refused, 99]);
  });
});

describe('a subscriber that throws', () => {
  it('before the COMMIT has rolled the transaction back: the lock is released at once [D86]', async () => {
    const { sell } = await open({ beforeTransactionCommit: fail });
    await expect(sell()).rejects.toThrow('no mail server');
    expect(await state()).toEqual([false, 100]);
  });

  it('after the COMMIT does not put it in doubt: the lock is released at once [D86]', async () => {
    const { sell } = await open({ afterTransactionCommit: fail });
    await expect(sell()).rejects.toThrow('no mail server');
    expect(await state()).toEqual([false, 99]);
  });

  /** TypeORM then also rolls back the transaction around the savepoint. */
  it('after a savepoint has rolled the transaction back: the lock is released at once', async () => {
    const { dataSource, locks } = await open({
      afterTransactionCommit: ({ queryRunner }) =>
        queryRunner.isTransactionActive ? fail() : undefined,
    });
    const sale = locks.withLock(stock.key, () =>
      dataSource.transaction(async (manager) => {
        const inner = manager.transaction((nested) => stock.takeOne(nested));
        await expect(inner).rejects.toThrow('no mail server');
      }),
    );
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    expect(await state()).toEqual([false, 100]);
  });
});

describe('a subscriber that throws before the rollback', () => {
  const noMoney = (): Promise<never> => Promise.reject(new Error('no money'));

  it.each([
    [
      'a transaction with a callback',
      async (dataSource: DataSource) => {
        const sale = dataSource.transaction(async (manager) => {
          await stock.takeOne(manager);
          await noMoney();
        });
        await expect(sale).rejects.toThrow('no money');
      },
    ],
    [
      'a query runner driven manually',
      async (dataSource: DataSource) => {
        const runner = dataSource.createQueryRunner();
        await runner.startTransaction();
        await stock.takeOne(runner);
        await expect(runner.rollbackTransaction()).rejects.toThrow('no mail server');
        await runner.release();
      },
    ],
  ])('does not keep %s open for others to commit [D87]', async (_, sell) => {
    let calls = 0;
    const subscriber = {
      beforeTransactionRollback: () => (calls++ === 0 ? fail() : undefined),
    };
    const { dataSource, locks } = await open(subscriber, 1);

    await locks.withLock(stock.key, () => sell(dataSource));
    await dataSource.transaction((manager) => manager.query('SELECT 1')); // on the same connection

    expect(calls).toBe(1);
    expect(await state()).toEqual([false, 100]);
  });
});

describe('without a lock, a subscriber that throws before the rollback', () => {
  type Sell = (dataSource: DataSource) => Promise<unknown>;
  const forms: Record<string, Sell> = {
    'with a callback': (dataSource) =>
      dataSource.transaction(async (manager) => {
        await stock.takeOne(manager);
        throw new Error('no money');
      }),
    'by hand': async (dataSource) => {
      const runner = dataSource.createQueryRunner();
      await runner.startTransaction();
      await stock.takeOne(runner);
      await runner.rollbackTransaction().finally(() => runner.release());
    },
  };

  /** Runs a transaction on the same connection, which commits what was left open. @returns the change in quantity */
  const leftBy = async (dataSource: DataSource, sell: Sell): Promise<number> => {
    let calls = 0;
    dataSource.subscribers.push({
      beforeTransactionRollback: () => (calls++ === 0 ? fail() : undefined),
    });
    const before = await stock.quantity();
    await expect(sell(dataSource)).rejects.toThrow();
    await dataSource.transaction((manager) => manager.query('SELECT 1'));
    return (await stock.quantity()) - before;
  };

  it.each(Object.entries(forms))(
    'leaves the transaction open with TypeORM alone, but not with the library: %s',
    async (_, sell) => {
      const alone = await openDataSource('postgres', postgres.settings, 1);
      const wrapped = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
      expect([await leftBy(alone, sell), await leftBy(wrapped, sell)]).toEqual([-1, 0]);
    },
  );
});

describe('a subscriber whose own statement fails in the middle of the COMMIT', () => {
  it('does not make the COMMIT a refused one: it was committed, and the lock is released [D90]', async () => {
    const other = await openDataSource('postgres', postgres.settings);
    const { sell } = await open({
      afterQuery: async ({ query }) => {
        if (query === 'COMMIT') await other.query('INSERT INTO no_such_table VALUES (1)');
      },
    });
    await expect(sell()).rejects.toThrow('no_such_table');
    expect(await state()).toEqual([false, 99]);
  });
});

describe('a subscriber that throws at a query runner driven manually', () => {
  it('before the COMMIT leaves the transaction open, and its lock held', async () => {
    let calls = 0;
    const { dataSource, sellByHand } = await open({
      beforeTransactionCommit: () => (calls++ === 0 ? fail() : undefined),
    });
    const runner = dataSource.createQueryRunner();
    await sellByHand(runner);
    await expect(runner.commitTransaction()).rejects.toThrow('no mail server');
    expect(await state()).toEqual([true, 100]);
    await runner.commitTransaction();
    await runner.release();
    expect(await state()).toEqual([false, 99]);
  });

  it('before the COMMIT, and is rolled back', async () => {
    const { dataSource, sellByHand } = await open({ beforeTransactionCommit: fail });
    const runner = dataSource.createQueryRunner();
    await sellByHand(runner);
    await expect(runner.commitTransaction()).rejects.toThrow('no mail server');
    await runner.rollbackTransaction();
    await runner.release();
    expect(await state()).toEqual([false, 100]);
  });

  it('after the COMMIT: the lock is released at once, and the runner can begin again', async () => {
    let calls = 0;
    const { dataSource, locks, sellByHand } = await open({
      afterTransactionCommit: () => (calls++ === 0 ? fail() : undefined),
    });
    const runner = dataSource.createQueryRunner();
    await locks.withLock(stock.key, async () => {
      await runner.startTransaction();
      await stock.takeOne(runner);
      await expect(runner.commitTransaction()).rejects.toThrow('no mail server');
    });
    expect(await state()).toEqual([false, 99]);
    await sellByHand(runner);
    expect(await state()).toEqual([true, 99]);
    await runner.commitTransaction();
    await runner.release();
    expect(await state()).toEqual([false, 98]);
  });
});

describeWithMariaDb('on MariaDB', () => {
  const mariaDb = useMariaDb();
  const shop = useShop('mysql', mariaDb);

  it('a statement of a subscriber that is refused after the answer to the COMMIT does not affect it', async () => {
    const other = await openDataSource('mysql', mariaDb.settings);
    const { sell } = await shop.open({
      afterQuery: async ({ query }) => {
        if (query !== 'COMMIT') return;
        await other.query('INSERT INTO stock VALUES (?, 1)', [shop.stock.product]); // a duplicate
      },
    });
    await expect(sell()).rejects.toMatchObject({ errno: 1062 });
    expect(await shop.state()).toEqual([false, 99]);
  });

  it.each(['beforeQuery', 'afterQuery'] as const)(
    'a subscriber that sends a statement in the middle of the COMMIT (%s) does not put it in doubt',
    async (hook) => {
      const { sell } = await shop.open(around(hook));
      await sell();
      expect(await shop.state()).toEqual([false, 99]);
    },
  );

  it.each([
    ['before the COMMIT has rolled the transaction back', 'beforeTransactionCommit', 100],
    ['after the COMMIT does not put it in doubt', 'afterTransactionCommit', 99],
  ] as const)('a subscriber that throws %s', async (_, hook, quantity) => {
    const { sell } = await shop.open({ [hook]: fail });
    await expect(sell()).rejects.toThrow('no mail server');
    expect(await shop.state()).toEqual([false, quantity]);
  });
});
