import { describe, expect, it } from '@jest/globals';
import { LockInTransactionError } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { DataSource, EntitySubscriberInterface, QueryRunner } from 'typeorm';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

type Where = 'under a lock' | 'without one';
const WHERE: readonly Where[] = ['under a lock', 'without one'];

/** A pool of one connection. */
async function start(subscriber: EntitySubscriberInterface = {}) {
  const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
  dataSource.subscribers.push(subscriber);
  const { locks } = await startLocks(redis.url, { fence: true });
  const run = <T>(where: Where, work: () => Promise<T>): Promise<T> =>
    where === 'under a lock' ? locks.withLock(stock.key, work) : work();
  return { dataSource, run };
}

const outOfCredit = (): Promise<never> => Promise.reject(new Error('out of credit'));

/** Throws when it is called for the first time, which is around the rollback of the nested transaction. */
function throwsOnce(): () => Promise<void> {
  let calls = 0;
  return async () => {
    if (calls++ === 0) throw new Error('no mail server');
  };
}

const nestedWithCallback = async ({ manager }: Pick<QueryRunner, 'manager'>): Promise<void> => {
  const nested = manager.transaction(async (inner) => {
    await stock.takeOne(inner);
    await outOfCredit();
  });
  await expect(nested).rejects.toThrow('out of credit');
};

const nestedByHand = async (runner: QueryRunner): Promise<void> => {
  await runner.startTransaction();
  await stock.takeOne(runner);
  await expect(runner.rollbackTransaction()).rejects.toThrow('no mail server');
};

const withoutSavepoint = async (runner: QueryRunner): Promise<void> => {
  await runner.startTransaction();
  await runner.query('RELEASE SAVEPOINT typeorm_1');
  await expect(runner.rollbackTransaction()).rejects.toThrow('does not exist');
};

type Case = readonly [string, Where, (runner: QueryRunner) => Promise<void>, 'hook' | 'database'];

const NOT_ROLLED_BACK = WHERE.flatMap((where): readonly Case[] => [
  ['with a callback', where, nestedWithCallback, 'hook'],
  ['by hand', where, nestedByHand, 'hook'],
  ['by hand, without its savepoint', where, withoutSavepoint, 'database'],
]);

const openTransactions = async (): Promise<number> => {
  const [row] = await postgres.query<{ n: number }>(
    "SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'",
  );
  return row?.n as number;
};

/** Somebody without a lock commits over the same connection. */
const commitNext = (dataSource: DataSource): Promise<unknown> =>
  dataSource.transaction((manager) => manager.query('SELECT 1'));

describe.each(NOT_ROLLED_BACK)(
  'a nested transaction, %s and %s, whose rollback does not go through',
  (_, where, nest, fault) => {
    const startFaulty = () =>
      start(fault === 'hook' ? { beforeTransactionRollback: throwsOnce() } : {});

    it('does not keep the transaction around it open', async () => {
      const { dataSource, run } = await startFaulty();
      const sale = run(where, async () => {
        const runner = dataSource.createQueryRunner();
        try {
          await runner.startTransaction();
          await stock.takeOne(runner);
          await nest(runner);
          await outOfCredit();
        } catch (error) {
          await runner.rollbackTransaction().catch(() => {});
          throw error;
        } finally {
          await runner.release();
        }
      });
      await expect(sale).rejects.toThrow('out of credit');
      expect([await isHeld(redis.url, stock.key), await openTransactions()]).toEqual([false, 0]);
      await commitNext(dataSource);
      expect(await stock.quantity()).toBe(100);
    });
  },
);

describe.each(NOT_ROLLED_BACK.filter(([, where]) => where === 'under a lock'))(
  'a nested transaction, %s and %s, whose rollback does not go through',
  (_, where, nest, fault) => {
    const startOn = async () => {
      const { dataSource, run } = await start(
        fault === 'hook' ? { beforeTransactionRollback: throwsOnce() } : {},
      );
      const runner = dataSource.createQueryRunner();
      const sell = (end: 'commitTransaction' | 'rollbackTransaction'): Promise<void> =>
        run(where, async () => {
          await runner.startTransaction();
          await stock.takeOne(runner);
          await nest(runner);
          await runner[end]();
        });
      return { runner, sell };
    };

    it('is rolled back with the transaction around it, before the runner is released', async () => {
      const { runner, sell } = await startOn();
      await sell('rollbackTransaction');
      expect([await isHeld(redis.url, stock.key), await openTransactions()]).toEqual([false, 0]);
      await runner.release();
      expect(await stock.quantity()).toBe(100);
    });

    it('forbids the commit: the transaction is rolled back by the release of the runner', async () => {
      const { runner, sell } = await startOn();
      const sale = sell('commitTransaction').finally(() => runner.release());
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      expect([await isHeld(redis.url, stock.key), await openTransactions()]).toEqual([false, 0]);
      expect(await stock.quantity()).toBe(100);
    });
  },
);

describe('without a lock, a nested transaction whose rollback has failed', () => {
  it('may be rolled back once more, and the transaction around it continues', async () => {
    const { dataSource } = await start({ beforeTransactionRollback: throwsOnce() });
    const runner = dataSource.createQueryRunner();
    await runner.startTransaction();
    await stock.takeOne(runner);
    await nestedByHand(runner);
    await runner.rollbackTransaction();
    await stock.takeOne(runner);
    await runner.commitTransaction();
    await runner.release();
    expect(await stock.quantity()).toBe(98);
  });

  it('may take the commit: a transaction under a lock does not begin on that runner', async () => {
    const { dataSource, run } = await start({ beforeTransactionRollback: throwsOnce() });
    const runner = dataSource.createQueryRunner();
    await runner.startTransaction();
    await nestedWithCallback(runner);
    await runner.commitTransaction();
    expect(runner.isTransactionActive).toBe(true); // TypeORM has sent no COMMIT
    const sale = run('under a lock', () => runner.startTransaction());
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    await runner.release();
    expect(await stock.quantity()).toBe(100);
  });
});

describe.each(WHERE)(
  'a hook that throws after the rollback of a nested transaction, %s',
  (where) => {
    it.each([
      ['with a callback', nestedWithCallback],
      ['by hand', nestedByHand],
    ])('does not end the transaction of a query runner (%s)', async (_, nest) => {
      const { dataSource, run } = await start({ afterTransactionRollback: throwsOnce() });
      await run(where, async () => {
        const runner = dataSource.createQueryRunner();
        await runner.startTransaction();
        await stock.takeOne(runner);
        await nest(runner);
        await stock.takeOne(runner);
        await runner.commitTransaction();
        await runner.release();
      });
      expect(await stock.quantity()).toBe(98);
    });

    it('does not end the transaction of a data source', async () => {
      const { dataSource, run } = await start({ afterTransactionRollback: throwsOnce() });
      await run(where, () =>
        dataSource.transaction(async (manager) => {
          await stock.takeOne(manager);
          await nestedWithCallback({ manager });
          await stock.takeOne(manager);
        }),
      );
      expect(await stock.quantity()).toBe(98);
    });
  },
);

describe('a hook that commits a nested transaction before its rollback', () => {
  /** TypeORM rolls back the transaction then: nothing else is open any more. */
  it('leaves nothing for which the next transaction of the runner has to wait', async () => {
    let calls = 0;
    const { dataSource, run } = await start({
      beforeTransactionRollback: async ({ queryRunner }) => {
        if (calls++ === 0) await queryRunner.commitTransaction();
      },
    });
    const runner = dataSource.createQueryRunner();
    await run('under a lock', async () => {
      await runner.startTransaction();
      await stock.takeOne(runner);
      await runner.startTransaction();
      await runner.rollbackTransaction();
      await runner.startTransaction();
      await stock.takeOne(runner);
      await runner.commitTransaction();
      await runner.release();
    });
    expect(await stock.quantity()).toBe(99);
  });
});
