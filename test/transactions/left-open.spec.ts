import { describe, expect, it } from '@jest/globals';
import { LockInTransactionError } from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import pg from 'pg';
import type { DataSource, EntityManager, QueryRunner } from 'typeorm';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { type Runs, useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

/** A pool of one connection. */
interface Shop {
  /** Code without locks gives the connection back in the middle of its transaction. */
  leaveOpen(): Promise<unknown>;
  transaction(body: (tx: Runs) => Promise<unknown>): Promise<unknown>;
}

const takeFifty = (runs: Runs): Promise<unknown> =>
  runs.query('UPDATE stock SET quantity = quantity - 50 WHERE id = $1', [stock.product]);

/** Its body ends before the nested transaction in it, so that TypeORM sends no COMMIT, and succeeds. */
const outlived = async (manager: EntityManager): Promise<void> => {
  await takeFifty(manager);
  const [begun, over] = [makeGate(), makeGate()];
  afterTest(() => over.open());
  const nested = manager.transaction(async () => {
    begun.open();
    await over.opened;
  });
  nested.catch(() => {});
  await begun.opened;
};

const openLockAware = async (): Promise<DataSource> =>
  lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));

async function byHand(runner: QueryRunner, body: (tx: Runs) => Promise<unknown>): Promise<unknown> {
  try {
    await runner.startTransaction();
    const result = await body(runner);
    await runner.commitTransaction();
    return result;
  } catch (error) {
    await runner.rollbackTransaction().catch(() => {});
    throw error;
  }
}

const onNodePostgres = (
  last: (client: pg.PoolClient) => void,
  first = 'BEGIN',
): (() => Promise<Shop>) => {
  return async () => {
    const pool = new pg.Pool({ connectionString: postgres.url, max: 1 });
    afterTest(() => pool.end());
    const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
    return {
      leaveOpen: async () => {
        const client = await pool.connect();
        await client.query(first);
        await takeFifty(client);
        last(client);
        client.release();
      },
      transaction: (body) =>
        run(async (wrap) => {
          const client = await pool.connect();
          try {
            await client.query('BEGIN');
            const query = async (sql: string, params: unknown[]): Promise<unknown> =>
              (await client.query<pg.QueryResultRow>(sql, params)).rows;
            const result = await wrap(client, () => body({ query }));
            await client.query('COMMIT');
            return result;
          } catch (error) {
            await client.query('ROLLBACK').catch(() => {});
            throw error;
          } finally {
            client.release();
          }
        }),
    };
  };
};

const sleep = (client: pg.PoolClient): void =>
  void client.query('SELECT pg_sleep(0.5)').catch(() => {});

const SHOPS: Record<string, () => Promise<Shop>> = {
  'a data source': async () => {
    const dataSource = await openLockAware();
    return {
      leaveOpen: () => dataSource.transaction(outlived),
      transaction: (body) => dataSource.transaction((manager) => body(manager)),
    };
  },
  'a query runner driven manually': async () => {
    const dataSource = await openLockAware();
    return {
      leaveOpen: () => dataSource.transaction(outlived),
      transaction: async (body) => {
        const runner = dataSource.createQueryRunner();
        return byHand(runner, body).finally(() => runner.release());
      },
    };
  },
  'a query runner that was connected before': async () => {
    const dataSource = await openLockAware();
    return {
      leaveOpen: () => dataSource.transaction(outlived),
      transaction: async (body) => {
        const runner = dataSource.createQueryRunner();
        await runner.connect();
        return byHand(runner, body).finally(() => runner.release());
      },
    };
  },
  'node-postgres': onNodePostgres(() => {}),
  'node-postgres, with a statement that is not answered yet': onNodePostgres(sleep),
};

const openTransactions = async (): Promise<number> => {
  const [row] = await postgres.query<{ n: number }>(
    "SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND (state LIKE 'idle in transaction%' OR query LIKE '%pg_sleep(0.5)')",
  );
  return row?.n as number;
};

const isRefused = async (sale: Promise<unknown>): Promise<void> => {
  await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
  await expect(sale).rejects.toThrow(/in the middle of another transaction/);
};

describe.each(Object.entries(SHOPS))(
  'a connection that is still in a transaction: %s',
  (_, open) => {
    it.each([true, false])('is no place for one under a lock (fence: %s)', async (fence) => {
      const shop = await open();
      const { locks } = await startLocks(redis.url, fence ? { fence: true } : {});
      await shop.leaveOpen();
      expect(await openTransactions()).toBe(1);
      let runs = 0;
      const sell = (): Promise<unknown> =>
        locks.withLock(stock.key, () =>
          shop.transaction(async (tx) => {
            runs++;
            await stock.takeOne(tx);
          }),
        );
      await isRefused(sell());
      expect([runs, await isHeld(redis.url, stock.key)]).toEqual([0, false]);
      expect(await stock.quantity()).toBe(100);
      await sell(); // on another connection
      expect(await stock.quantity()).toBe(99);
    });

    it('is used without a lock as it was without the library', async () => {
      const shop = await open();
      await startLocks(redis.url, { fence: true });
      await shop.leaveOpen();
      await shop.transaction((tx) => stock.takeOne(tx));
      expect([await stock.quantity(), await openTransactions()]).toEqual([49, 0]);
    });
  },
);

describe('a lock requested in a transaction that has begun in another one', () => {
  it.each(['a data source', 'node-postgres'])('is refused: %s', async (name) => {
    const shop = await (SHOPS[name] as () => Promise<Shop>)();
    const { locks } = await startLocks(redis.url, { insideTransaction: 'join' });
    await shop.leaveOpen();
    const sale = shop.transaction((tx) => locks.withLock(stock.key, () => stock.takeOne(tx)));
    await isRefused(sale);
    await eventually(async () => expect(await openTransactions()).toBe(0));
    expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([100, false]);
  });
});

describe('a query runner whose transaction was never committed, because a nested one was open', () => {
  const opened: [string, (runner: QueryRunner) => Promise<unknown>][] = [
    ['with a callback', (runner) => runner.manager.transaction(outlived)],
    ['by hand', (runner) => byHand(runner, () => outlived(runner.manager))],
  ];
  const sold: [string, (runner: QueryRunner) => Promise<unknown>][] = [
    ['with a callback', (runner) => runner.manager.transaction((tx) => stock.takeOne(tx))],
    ['by hand', (runner) => byHand(runner, (tx) => stock.takeOne(tx))],
  ];

  it.each(
    opened.flatMap(([leaving, leave]) =>
      sold.map(([selling, sell]) => [leaving, selling, leave, sell] as const),
    ),
  )(
    'takes no savepoint for a commit under a lock: left %s, and used %s',
    async (_, __, leave, sell) => {
      const dataSource = await openLockAware();
      const { locks } = await startLocks(redis.url, { fence: true });
      const runner = dataSource.createQueryRunner();
      await leave(runner);
      await isRefused(locks.withLock(stock.key, () => sell(runner)));
      await eventually(async () => expect(await openTransactions()).toBe(0));
      await runner.release();
      expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([100, false]);
      const other = dataSource.createQueryRunner();
      await locks.withLock(stock.key, () => sell(other));
      await other.release();
      expect(await stock.quantity()).toBe(99);
    },
  );
});

describe('a query runner that was left so, and released', () => {
  it('leaves the connection alone, which has another user', async () => {
    const dataSource = await openLockAware();
    const { locks } = await startLocks(redis.url, { fence: true });
    const runner = dataSource.createQueryRunner();
    await byHand(runner, () => outlived(runner.manager));
    await runner.release();
    const other = dataSource.createQueryRunner();
    const [mine] = (await other.query('SELECT pg_backend_pid() AS pid')) as { pid: number }[];
    await isRefused(locks.withLock(stock.key, () => runner.startTransaction()));
    expect(await other.query('SELECT pg_backend_pid() AS pid')).toEqual([mine]);
    await other.query('ROLLBACK');
    await other.release();
    expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([100, false]);
  });
});

describe('a BEGIN in the body', () => {
  it('does no harm: the server warns of it, and continues', async () => {
    const shop = await onNodePostgres(sleep, 'SELECT 1')();
    const { locks } = await startLocks(redis.url, { insideTransaction: 'join' });
    await shop.leaveOpen(); // no transaction, but a statement whose answer is still to come
    await locks.withLock(`${stock.key}:around`, () =>
      shop.transaction(async (tx) => {
        await tx.query('BEGIN', []);
        await locks.withLock(stock.key, () => stock.takeOne(tx));
      }),
    );
    expect(await stock.quantity()).toBe(49);
  });
});
