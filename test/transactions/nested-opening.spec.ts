import { describe, expect, it } from '@jest/globals';
import { LockInTransactionError } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

/** TypeORM counts a nested transaction when its savepoint is there, and asks its subscribers before that. */
describe('a nested transaction that is still being opened when its transaction ends', () => {
  it.each([true, false])('forbids the commit (fence: %s)', async (fence) => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url, { fence });
    let goOn = (): void => {};
    const delay = new Promise<void>((resolve) => (goOn = resolve));
    let openings = 0;
    dataSource.subscribers.push({
      beforeTransactionStart: async () => {
        if (openings++ > 0) await delay; // the first one is that of the transaction itself
      },
    });
    let nested: Promise<string> | undefined;
    const sale = locks.withLock(stock.key, () =>
      dataSource.transaction(async (manager) => {
        await stock.takeOne(manager);
        nested = manager
          .transaction((inner) => stock.takeOne(inner))
          .then(
            () => 'done',
            () => 'failed',
          );
      }),
    );
    await expect(sale).rejects.toThrow(/a nested transaction .* is still open/);
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    goOn();
    expect(await nested).toBe('failed');
    expect([openings, await isHeld(redis.url, stock.key), await stock.quantity()]).toEqual([
      2,
      false,
      100,
    ]);
  });
});
