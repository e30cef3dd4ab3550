import { expect, it } from '@jest/globals';
import { LockLostError } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { setTimeout as sleep } from 'node:timers/promises';
import { usePostgres } from '../support/databases.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { spyOnWarnings } from '../support/spy-on-warnings.js';
import { openDataSource } from './data-source.js';
import { startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const database = usePostgres();
const stock = useStock(database);

it.each([
  ['withLock()', false],
  ['acquire()', true],
])(
  'work under a lock of %s that goes on after its application was closed commits nothing',
  async (_, isAcquired) => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', database.settings));
    const options = { leaseMs: 1_000, fence: true, shutdownMs: 200 };
    const closed = await startLocks(redis.url, options);
    const other = await startLocks(redis.url, { fence: true });
    const [hasLock, isClosed] = [makeGate(), makeGate()];
    const sell = () => dataSource.transaction((manager) => stock.takeOne(manager));

    const sellLate = async (): Promise<void> => {
      hasLock.open();
      await isClosed.opened;
      await sell();
    };
    const acquiredWork = async (): Promise<void> => {
      await closed.locks.acquire(stock.key);
      await sellLate();
    };
    const lockedWork = () => closed.locks.withLock(stock.key, sellLate);
    // In a context of its own: a lost lock of acquire() refuses what comes later in the same one.
    const late = Promise.resolve().then(isAcquired ? acquiredWork : lockedWork);
    const outcome = expect(late).rejects.toBeInstanceOf(LockLostError);
    await hasLock.opened;
    await closed.app.close();
    await other.locks.withLock(stock.key, sell);

    isClosed.open();
    await outcome;
    expect(await stock.quantity()).toBe(99);
  },
);

it.each(['restart', 'join'] as const)(
  'an application waits for a transaction that keeps the lock of a call inside it: %s',
  async (insideTransaction) => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', database.settings));
    const { app, locks } = await startLocks(redis.url, { fence: true, insideTransaction });
    const hasLocked = makeGate();
    const selling = dataSource.transaction(async (manager) => {
      await locks.withLock(stock.key, () => {});
      hasLocked.open();
      await sleep(200);
      await stock.takeOne(manager);
    });
    await Promise.race([hasLocked.opened, selling]);
    const from = performance.now();
    await app.close();
    expect(performance.now() - from).toBeLessThan(8_000); // and not until the end of `shutdownMs`
    await selling;
    expect(await stock.quantity()).toBe(99);
  },
);

it('the fence of a closed application, whose lock is never released, is not asked of a later one', async () => {
  const closed = await startLocks(redis.url, { fence: true, shutdownMs: 100 });
  await Promise.resolve().then(() => closed.locks.acquire(stock.key));
  await closed.app.close();
  const warnings = spyOnWarnings();
  const dataSource = await openDataSource('postgres', database.settings);
  await startLocks(redis.url, {}, [{ provide: 'plain', useValue: dataSource }]);
  expect(warnings()).toEqual([]);
});
