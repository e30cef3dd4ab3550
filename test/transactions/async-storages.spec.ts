import { expect, it, jest } from '@jest/globals';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { AsyncLocalStorage } from 'node:async_hooks';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const database = usePostgres();
const stock = useStock(database);

/** The storages that are used from now on. Up to Node 22, each of them makes every promise of the process slower. */
function watchStorages(): () => ReadonlySet<unknown> {
  const spies = (['run', 'enterWith'] as const).map((name) =>
    jest.spyOn(AsyncLocalStorage.prototype, name),
  );
  afterTest(() => spies.forEach((spy) => spy.mockRestore()));
  return () => new Set(spies.flatMap(({ mock }) => mock.contexts));
}

it('many applications use one storage for their calls and transactions, and one for acquire()', async () => {
  const storages = watchStorages();
  for (let application = 0; application < 3; application++) {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', database.settings));
    const { app, locks } = await startLocks(redis.url, { fence: true });
    await locks.withLock(stock.key, () =>
      dataSource.transaction(async (manager) => {
        await stock.takeOne(manager);
        await manager.transaction((nested) => stock.takeOne(nested));
      }),
    );
    expect(storages().size).toBe(application === 0 ? 1 : 2);
    const lock = await locks.acquire(stock.key);
    await lock.release();
    await app.close();
  }
  expect(await stock.quantity()).toBe(94);
  expect(storages().size).toBe(2);
});
