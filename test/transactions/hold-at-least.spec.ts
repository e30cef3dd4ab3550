import { describe, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { DataSource, EntityManager } from 'typeorm';
import { setTimeout as sleep } from 'node:timers/promises';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

const KEEP = { holdAtLeastMs: 5_000 } as const;

const held = (): Promise<boolean> => isHeld(redis.url, stock.key);

interface Shop {
  readonly dataSource: DataSource;
  readonly locks: LockService;
  /** Takes one piece under the lock, which is to stay taken after it. */
  readonly sell: (manager: EntityManager) => Promise<void>;
}

async function startShop(insideTransaction: 'restart' | 'join' = 'join'): Promise<Shop> {
  const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
  const { locks } = await startLocks(redis.url, { insideTransaction });
  const sell = (manager: EntityManager): Promise<void> =>
    locks.withLock(stock.key, KEEP, () => stock.takeOne(manager));
  return { dataSource, locks, sell };
}

describe.each(['restart', 'join'] as const)(
  'a key stays taken after committed work, with %s',
  (how) => {
    it.each<[string, (shop: Shop) => Promise<unknown>]>([
      ['taken inside', ({ dataSource, sell }) => dataSource.transaction(sell)],
      [
        'taken inside, in a second transaction',
        ({ dataSource, sell }) => dataSource.transaction(() => dataSource.transaction(sell)),
      ],
      [
        'taken inside, also by a later call that asks for less',
        ({ dataSource, locks, sell }) =>
          dataSource.transaction(async (manager) => {
            await sell(manager);
            await locks.withLock(stock.key, { holdAtLeastMs: 1 }, () => {});
          }),
      ],
      [
        'held around',
        ({ dataSource, locks, sell }) =>
          locks.withLock(stock.key, () => dataSource.transaction(sell)),
      ],
      [
        'held around, by a call that ends before the transaction',
        async ({ dataSource, locks, sell }) => {
          let sale: Promise<unknown> = Promise.resolve();
          await locks.withLock(stock.key, async () => {
            sale = dataSource.transaction(async (manager) => {
              await sell(manager);
              await sleep(200);
            });
            await sleep(100);
          });
          await sale.catch(() => {}); // it was refused: what counts is that its call has worked
        },
      ],
      [
        'acquired, and released in the body',
        async ({ dataSource, locks, sell }) => {
          const lock = await locks.acquire(stock.key);
          await dataSource.transaction(async (manager) => {
            await lock.run(() => sell(manager));
            await lock.release();
          });
        },
      ],
    ])('%s', async (_, sale) => {
      await sale(await startShop(how));
      expect(await held()).toBe(true);
    });
  },
);

it('A key stays taken for an ordinary lock whose transaction has failed, inside of one that continues', async () => {
  const { dataSource, locks } = await startShop();
  const { locks: others } = await startLocks(redis.url);
  const first = uniqueKey('first');
  const busy = await others.acquire(first);
  await dataSource.transaction(async () => {
    let calls: Promise<unknown>[] = [];
    const inner = dataSource.transaction(async () => {
      calls = [locks.withLock(first, () => {}), locks.withLock(stock.key, KEEP, () => {})];
      await sleep(100);
      throw new Error('body');
    });
    await expect(inner).rejects.toThrow('body');
    await busy.release();
    await Promise.all(calls);
    expect(await held()).toBe(true);
  });
});

it('A key stays taken for a call whose transaction has failed while it waited for its turn', async () => {
  const { dataSource, locks } = await startShop();
  await locks.withLock(stock.key, async () => {
    const sibling = locks.withLock(stock.key, () => sleep(400));
    let call: Promise<unknown> | undefined;
    const failing = dataSource.transaction(async () => {
      call = locks.withLock(stock.key, KEEP, () => 'worked');
      await sleep(100);
      throw new Error('body');
    });
    await expect(failing).rejects.toThrow('body');
    expect(await call).toBe('worked');
    await sibling;
  });
  expect(await held()).toBe(true);
});

it('No key stays taken in a run that is given up, although it was lost and taken again there', async () => {
  const { dataSource, locks } = await startShop();
  const second = uniqueKey('second');
  let runs = 0;
  await dataSource.transaction(async (manager) => {
    const [maxHoldMs, slowly] = ++runs === 1 ? [300, 500] : [60_000, 1];
    const short = { maxHoldMs, leaseMs: 1_000 };
    const lost = locks.withLock(stock.key, short, () => sleep(slowly));
    await sleep(20);
    const options = { ...short, ...KEEP, waitMs: 2_000, onBusy: 'skip' } as const;
    await Promise.allSettled([
      lost,
      locks.withLock(stock.key, options, () => stock.takeOne(manager)),
    ]);
    await locks.withLock(second, { insideTransaction: 'restart' }, () => {});
  });
  expect([runs, await stock.quantity(), await held()]).toEqual([2, 99, true]);
});

it('No key stays taken for a second transaction inside of a run that is given up', async () => {
  const { dataSource, locks, sell } = await startShop('restart');
  const { locks: others } = await startLocks(redis.url);
  const second = uniqueKey('second');
  await using busy = await others.acquire(second);
  void busy;
  const sale = locks.withLock(stock.key, () =>
    dataSource.transaction(async () => {
      await dataSource.transaction(sell);
      await locks.withLock(second, { waitMs: 100 }, () => {});
    }),
  );
  await expect(sale).rejects.toMatchObject({ code: 'LOCK_NOT_ACQUIRED' });
  expect(await held()).toBe(false);
});
