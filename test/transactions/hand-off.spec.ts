/** `detach` and `adopt` around transactions: what was not committed is not handed over. */
import { describe, expect, it } from '@jest/globals';
import { LockCommitUnknownError, LockInTransactionError } from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import pg from 'pg';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { PostgresProxy } from '../support/postgres-proxy.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { startLocks } from './locks.js';
import { transactionsOf } from './recipes/node-postgres.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);
const FOR_MS = 20_000;

const openAware = async () =>
  lockAwareDataSource(await openDataSource('postgres', postgres.settings));

describe('a lock with transactions', () => {
  it('is detached after the COMMIT, and the next one claims a greater number', async () => {
    const dataSource = await openAware();
    const [first, second] = [
      await startLocks(redis.url, { fence: true }),
      await startLocks(redis.url, { fence: true }),
    ];
    const text = await first.locks.withLock(stock.key, async (lock) => {
      await dataSource.transaction(async (manager) => {
        await stock.takeOne(manager);
        await expect(lock.detach({ forMs: FOR_MS })).rejects.toThrow(LockInTransactionError);
        expect(lock.isHeld).toBe(true);
      });
      expect(await stock.fence()).toBe(lock.fencingToken);
      return lock.detach({ forMs: FOR_MS });
    });
    const before = await stock.fence();
    const used = await second.locks.adopt(text, async (lock) => {
      await dataSource.transaction((manager) => stock.takeOne(manager));
      return lock.fencingToken;
    });
    expect(used).toBeGreaterThan(before);
    expect(await stock.fence()).toBe(used);
    expect(await stock.quantity()).toBe(98);
  });

  it('that was acquired by hand is not detached inside a transaction either', async () => {
    const dataSource = await openAware();
    const { locks } = await startLocks(redis.url);
    const lock = await locks.acquire(stock.key);
    await dataSource.transaction(async (manager) => {
      await stock.takeOne(manager);
      await expect(lock.detach({ forMs: FOR_MS })).rejects.toThrow(LockInTransactionError);
    });
    const text = await lock.detach({ forMs: FOR_MS });
    await dataSource.transaction(async (manager) => {
      await stock.takeOne(manager);
      await expect(locks.adopt(text)).rejects.toThrow(LockInTransactionError);
    });
    const adopted = await locks.adopt(text); // it was not used up
    await adopted.run(() => dataSource.transaction((manager) => stock.takeOne(manager)));
    expect(await adopted.release()).toBe(true);
    expect(await stock.quantity()).toBe(97);
  });

  it('is not detached after a COMMIT whose outcome is unknown', async () => {
    const proxy = await PostgresProxy.start(postgres.url);
    const pool = new pg.Pool({ connectionString: proxy.url });
    pool.on('error', () => {});
    afterTest(() => pool.end());
    lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
    const { locks } = await startLocks(redis.url, { leaseMs: 1_500 });
    const sell = transactionsOf(pool);
    await locks.withLock(stock.key, async (lock) => {
      const sale = sell(async (tx) => {
        await tx.query('UPDATE stock SET quantity = 0 WHERE id = $1', [stock.product]);
        proxy.breakAt('COMMIT');
      });
      await expect(sale).rejects.toBeInstanceOf(LockCommitUnknownError);
      await expect(lock.detach({ forMs: FOR_MS })).rejects.toBeInstanceOf(LockCommitUnknownError);
    });
  });
});
