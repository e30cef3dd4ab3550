import { describe, expect, it } from '@jest/globals';
import { LockLostError, type LockService } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { DataSource, EntityManager } from 'typeorm';
import { usePostgres } from '../support/databases.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { useStock } from './stock.js';

type Work = (manager: EntityManager) => Promise<unknown>;
type Transaction = (dataSource: DataSource, work: Work) => Promise<unknown>;

const withCallback: Transaction = (dataSource, work) => dataSource.transaction(work);

const byHand: Transaction = async (dataSource, work) => {
  const runner = dataSource.createQueryRunner();
  try {
    await runner.startTransaction();
    await work(runner.manager);
    await runner.commitTransaction();
  } catch (error) {
    if (runner.isTransactionActive) await runner.rollbackTransaction();
    throw error;
  } finally {
    await runner.release();
  }
};

const WAYS: readonly (readonly [string, Transaction])[] = [
  ['with a callback', withCallback],
  ['by hand', byHand],
];

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

interface Started {
  readonly dataSource: DataSource;
  readonly locks: LockService;
  /** The only connection is in use until this is called. */
  readonly freeConnection: () => Promise<void>;
}

async function start(fence: boolean): Promise<Started> {
  const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
  const { locks } = await startLocks(redis.url, { fence });
  const user = dataSource.createQueryRunner();
  await user.connect();
  return { dataSource, locks, freeConnection: () => user.release() };
}

describe.each([true, false])(
  'a transaction that is still being opened when its call ends (fence: %s)',
  (fence) => {
    it.each(WAYS)('does not begin without the lock, opened %s', async (_, transaction) => {
      const { dataSource, locks, freeConnection } = await start(fence);
      let hasBegun = false;
      let sale: Promise<unknown> | undefined;
      const failing = locks.withLock(stock.key, () => {
        sale = transaction(dataSource, async (manager) => {
          hasBegun = true;
          await stock.takeOne(manager);
        });
        sale.catch(() => {});
        throw new Error('another branch has failed');
      });
      await expect(failing).rejects.toThrow('another branch has failed');
      expect(await isHeld(redis.url, stock.key)).toBe(false);
      await freeConnection();
      await expect(sale).rejects.toThrow(LockLostError);
      expect(hasBegun).toBe(false);
      expect(await stock.quantity()).toBe(100);

      await locks.withLock(stock.key, () =>
        transaction(dataSource, (manager) => stock.takeOne(manager)),
      );
      expect(await stock.quantity()).toBe(99);
    });

    it('begins in a call around the one that has requested it only if that has the key', async () => {
      const { dataSource, locks, freeConnection } = await start(fence);
      const saleOf = (key: string): Promise<unknown> => {
        let sale: Promise<unknown> | undefined;
        return locks.withLock(key, async () => {
          await locks.withLock(stock.key, () => {
            sale = dataSource.transaction((manager) => stock.takeOne(manager));
            sale.catch(() => {});
          });
          await freeConnection();
          await sale;
        });
      };
      await expect(saleOf(`${stock.key}:around`)).rejects.toThrow(LockLostError);
      expect(await stock.quantity()).toBe(100);
      await saleOf(stock.key);
      expect(await stock.quantity()).toBe(99);
    });
  },
);

it('waits for its turn in vain if the call has ended meanwhile', async () => {
  const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
  const { locks } = await startLocks(redis.url, { fence: true });
  const user = dataSource.createQueryRunner();
  let isNext: Promise<unknown> | undefined;
  let second: Promise<unknown> | undefined;
  const failing = locks.withLock(stock.key, () =>
    Promise.all([
      dataSource.transaction(async () => {
        isNext = user.connect(); // before the second one, which waits for its turn
        throw new Error('the first has failed');
      }),
      (second = dataSource.transaction((manager) => stock.takeOne(manager))),
    ]),
  );
  await expect(failing).rejects.toThrow('the first has failed');
  await isNext;
  await user.release();
  await expect(second).rejects.toThrow(LockLostError);
  expect(await stock.quantity()).toBe(100);
});

it.each(WAYS)(
  'is guarded by the call around the one that has left it behind, %s',
  async (_, transaction) => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url, { fence: true });
    const innerHasEnded = makeGate();
    let hasWritten = false;
    const sale = locks.withLock(stock.key, async () => {
      let left: Promise<unknown> | undefined;
      await locks.withLock(stock.key, () => {
        left = innerHasEnded.opened.then(() =>
          transaction(dataSource, async (manager) => {
            await stock.takeOne(manager);
            hasWritten = true;
            await locks.forceRelease(stock.key);
          }),
        );
      });
      innerHasEnded.open();
      await left;
    });
    await expect(sale).rejects.toThrow(LockLostError);
    expect([hasWritten, await stock.quantity()]).toEqual([true, 100]);
  },
);
