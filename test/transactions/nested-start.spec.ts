import { describe, expect, it } from '@jest/globals';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { byHand } from './opened-transaction.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

const noMoney = (): Promise<never> => Promise.reject(new Error('no money'));
const sell = (manager: EntityManager): Promise<unknown> => stock.takeOne(manager);

const nestedWithCallback = (manager: EntityManager): Promise<void> =>
  expect(manager.transaction(sell)).rejects.toThrow('no mail server');

async function nestedByHand(runner: QueryRunner): Promise<void> {
  await expect(runner.startTransaction()).rejects.toThrow('no mail server');
  await runner.rollbackTransaction().catch(() => {});
}

const openedByHand = byHand((runner) => runner.rollbackTransaction().catch(() => {}));

type End = () => Promise<unknown>;

const SALES: Record<string, (dataSource: DataSource, end: End) => Promise<unknown>> = {
  'a data source': (dataSource, end) =>
    dataSource.transaction(async (manager) => {
      await sell(manager);
      await nestedWithCallback(manager);
      await sell(manager);
      await end();
    }),
  'a query runner driven manually, with a callback': (dataSource, end) =>
    openedByHand(dataSource, async (runner) => {
      await sell(runner.manager);
      await nestedWithCallback(runner.manager);
      await sell(runner.manager);
      await end();
    }),
  'a query runner driven manually, by hand': (dataSource, end) =>
    openedByHand(dataSource, async (runner) => {
      await sell(runner.manager);
      await nestedByHand(runner);
      await sell(runner.manager);
      await end();
    }),
};

describe.each(
  Object.entries(SALES).flatMap(([name, sale]) =>
    (['under a lock', 'without one'] as const).map((where) => [name, where, sale] as const),
  ),
)('a nested transaction whose start fails in a hook: on %s, %s', (_, where, sale) => {
  /** The hook throws at the nested transaction, over a pool of one connection. */
  async function run(
    hook: 'beforeTransactionStart' | 'afterTransactionStart',
    end: End,
  ): Promise<void> {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url, { fence: true });
    let calls = 0;
    dataSource.subscribers.push({
      [hook]: () => {
        if (++calls === 2) throw new Error('no mail server');
      },
    });
    const work = (): Promise<unknown> => sale(dataSource, end);
    try {
      await (where === 'under a lock' ? locks.withLock(stock.key, work) : work());
    } finally {
      expect(await isHeld(redis.url, stock.key)).toBe(false);
      await dataSource.transaction((manager) => manager.query('SELECT 1')); // commits what is open
    }
  }

  it('does not end the transaction around it, after the savepoint was sent', async () => {
    await run('afterTransactionStart', async () => {});
    expect(await stock.quantity()).toBe(98);
  });

  it('does not keep a transaction open that fails, after the savepoint was sent', async () => {
    await expect(run('afterTransactionStart', noMoney)).rejects.toThrow('no money');
    expect(await stock.quantity()).toBe(100);
  });

  // TypeORM takes the transaction for ended, and sends neither COMMIT nor ROLLBACK.
  it('does not keep the transaction open, before the savepoint was sent', async () => {
    const committed = run('beforeTransactionStart', async () => {});
    await expect(committed).rejects.toThrow('Transaction is not started yet');
    expect(await stock.quantity()).toBe(100);
  });

  it('does not keep a transaction open that fails, before the savepoint was sent', async () => {
    await expect(run('beforeTransactionStart', noMoney)).rejects.toThrow('no money');
    expect(await stock.quantity()).toBe(100);
  });
});

describe.each(['under a lock', 'without one'])(
  'a second try of a nested transaction, %s',
  (where) => {
    it('is nested again after a hook has failed before the savepoint was sent', async () => {
      const dataSource = lockAwareDataSource(
        await openDataSource('postgres', postgres.settings, 1),
      );
      const { locks } = await startLocks(redis.url, { fence: true });
      let calls = 0;
      dataSource.subscribers.push({
        beforeTransactionStart: () => {
          if (++calls === 2) throw new Error('no mail server');
        },
      });
      const work = (): Promise<unknown> =>
        openedByHand(dataSource, async ({ manager }) => {
          await sell(manager);
          await nestedWithCallback(manager);
          const failing = manager.transaction((nested) => sell(nested).then(noMoney));
          await expect(failing).rejects.toThrow('no money'); // only to its savepoint
          await manager.transaction(sell);
        });
      await (where === 'under a lock' ? locks.withLock(stock.key, work) : work());
      expect(await stock.quantity()).toBe(98);
    });
  },
);
