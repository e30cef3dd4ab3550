import { describe, expect, it } from '@jest/globals';
import { Propagation } from '@nestjs-cls/transactional';
import { LockInTransactionError } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { EntityManager } from 'typeorm';
import { setTimeout as sleep } from 'node:timers/promises';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { startClsApp } from './cls-app.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { type Runs, useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

const outOfCredit = (): Promise<never> => Promise.reject(new Error('out of credit'));

/** A transaction in which nested ones can be opened. */
interface Opened extends Runs {
  nested<R>(body: (inner: Runs) => Promise<R>): Promise<R>;
}

/** Opens transactions on a pool of one connection. */
interface Shop {
  readonly withLock: (work: () => Promise<unknown>) => Promise<unknown>;
  transaction<R>(body: (opened: Opened) => Promise<R>): Promise<R>;
}

const onDataSource = (manager: EntityManager): Opened => ({
  query: (sql, params) => manager.query(sql, params),
  nested: (body) => manager.transaction((inner) => body(inner)),
});

const SHOPS: Record<string, (fence: boolean) => Promise<Shop>> = {
  'a data source': async (fence) => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url, fence ? { fence: true } : {});
    return {
      withLock: (work) => locks.withLock(stock.key, work),
      transaction: (body) => dataSource.transaction((manager) => body(onDataSource(manager))),
    };
  },
  'nestjs-cls': async (fence) => {
    const { host, locks } = await startClsApp({
      redisUrl: redis.url,
      type: 'postgres',
      settings: postgres.settings,
      poolSize: 1,
      ...(fence ? { fence: true } : {}),
    });
    const opened: Opened = {
      query: (sql, params) => host.tx.query(sql, params),
      nested: (body) => host.withTransaction(Propagation.Nested, () => body(opened)),
    };
    return {
      withLock: (work) => locks.withLock(stock.key, work),
      transaction: (body) => host.withTransaction(() => body(opened)),
    };
  },
};

/** Opens a nested transaction that remains open until the test ends it. */
function audit(opened: Opened) {
  let end = (): void => {};
  let begun = (): void => {};
  const isOpen = new Promise<void>((resolve) => (begun = resolve));
  const ended = opened.nested(async (inner) => {
    begun();
    await new Promise<void>((resolve) => (end = resolve));
    await inner.query('UPDATE stock SET quantity = quantity - 50 WHERE id = $1', [stock.product]);
  });
  const told = ended.then(
    () => 'done',
    () => 'failed',
  );
  return { isOpen, ended, told, end: () => end() };
}

const openTransactions = async (): Promise<number> => {
  const [row] = await postgres.query<{ n: number }>(
    "SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'",
  );
  return row?.n as number;
};
const state = async (): Promise<unknown> => [
  await isHeld(redis.url, stock.key),
  await stock.quantity(),
  await openTransactions(),
];
/** Another user of the connection, in whose transaction the nested one ends. */
const someoneElse = (shop: Shop, between: () => Promise<unknown>): Promise<string> =>
  shop.transaction(async (opened) => {
    await opened.query('SELECT 1', []);
    await between();
    await opened.query('SELECT 2', []);
    return 'committed';
  });

describe.each(
  Object.entries(SHOPS).flatMap(([name, open]) =>
    [true, false].map(
      (fence) => [`${name}, ${fence ? 'with' : 'without'} the fence`, open, fence] as const,
    ),
  ),
)('a nested transaction that is still open when its transaction ends: %s', (_, open, fence) => {
  it('forbids the commit: nothing is written, and the connection is free for others', async () => {
    const shop = await open(fence);
    let late: ReturnType<typeof audit> | undefined;
    const sale = shop.withLock(() =>
      shop.transaction(async (opened) => {
        await stock.takeOne(opened);
        late = audit(opened);
        await late.isOpen;
      }),
    );
    await expect(sale).rejects.toThrow(
      /a nested transaction .* is still open .* await every nested/,
    );
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    expect(await state()).toEqual([false, 100, 0]);
    const other = someoneElse(shop, async () => {
      late?.end();
      return late?.told;
    });
    expect(await other).toBe('committed');
    expect(await late?.told).toBe('failed');
    expect(await state()).toEqual([false, 100, 0]);
  });

  it('forbids the commit even if it has only begun to open', async () => {
    const shop = await open(fence);
    const sale = shop.withLock(() =>
      shop.transaction(async (opened) => {
        await stock.takeOne(opened);
        void audit(opened).told;
      }),
    );
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    expect(await state()).toEqual([false, 100, 0]);
  });

  it('does not keep a failed transaction open: nobody else commits it', async () => {
    const shop = await open(fence);
    let late: ReturnType<typeof audit> | undefined;
    const sale = shop.withLock(() =>
      shop.transaction(async (opened) => {
        await stock.takeOne(opened);
        late = audit(opened);
        await late.isOpen;
        await Promise.all([late.ended, outOfCredit()]);
      }),
    );
    await expect(sale).rejects.toThrow('out of credit');
    expect(await state()).toEqual([false, 100, 0]);
    const other = someoneElse(shop, async () => {
      late?.end();
      return late?.told;
    });
    expect(await other).toBe('committed');
    expect(await state()).toEqual([false, 100, 0]);
  });

  it('does no harm when it is awaited', async () => {
    const shop = await open(fence);
    await shop.withLock(() =>
      shop.transaction(async (opened) => {
        await opened.nested((inner) => stock.takeOne(inner));
        await opened.nested(() => outOfCredit()).catch(() => {});
        const late = audit(opened);
        await late.isOpen;
        late.end();
        await late.ended;
      }),
    );
    expect(await state()).toEqual([false, 49, 0]);
  });
});

describe('a nested transaction that ends while its transaction is rolled back', () => {
  it.each(['under a lock', 'without one'])('does not commit it (%s)', async (where) => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url);
    let late: ReturnType<typeof audit> | undefined;
    let calls = 0;
    dataSource.subscribers.push({
      beforeTransactionRollback: async () => {
        if (calls++ > 0) return;
        late?.end();
        await sleep(50);
      },
    });
    const sell = (): Promise<unknown> =>
      dataSource.transaction(async (manager) => {
        await stock.takeOne(manager);
        const silent: Runs = { query: async () => {} };
        late = audit({ ...silent, nested: (body) => manager.transaction(() => body(silent)) });
        await late.isOpen;
        await outOfCredit();
      });
    const sale = where === 'under a lock' ? locks.withLock(stock.key, sell) : sell();
    await expect(sale).rejects.toThrow('out of credit');
    expect(await late?.told).toBe('failed');
    expect(calls).toBe(1);
    expect(await state()).toEqual([false, 100, 0]);
  });
});

describe('a nested transaction of a subscriber, before the COMMIT', () => {
  it('is committed with the transaction', async () => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url, { fence: true });
    let calls = 0;
    dataSource.subscribers.push({
      beforeTransactionCommit: async ({ manager }) => {
        if (calls++ > 0) return;
        await manager.transaction((inner) => stock.takeOne(inner));
        await manager.transaction(() => outOfCredit()).catch(() => {});
      },
    });
    await locks.withLock(stock.key, () =>
      dataSource.transaction((manager) => stock.takeOne(manager)),
    );
    expect(calls).toBe(2); // its own call, and that of its nested transaction
    expect(await state()).toEqual([false, 98, 0]);
  });
});

describe('a query runner driven manually', () => {
  it('fails while its nested transaction is open, and rolls back completely', async () => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url, { fence: true });
    const runner = dataSource.createQueryRunner();
    let late: ReturnType<typeof audit> | undefined;
    await locks.withLock(stock.key, async () => {
      await runner.startTransaction();
      await stock.takeOne(runner);
      late = audit(onDataSource(runner.manager));
      await late.isOpen;
      await expect(runner.commitTransaction()).rejects.toThrow(/await every nested transaction/);
      await runner.rollbackTransaction();
    });
    expect(await state()).toEqual([false, 100, 0]);
    await runner.startTransaction(); // the late nested transaction must not end this one
    await stock.takeOne(runner);
    late?.end();
    expect(await late?.told).toBe('failed');
    expect(runner.isTransactionActive).toBe(true);
    await runner.rollbackTransaction();
    await runner.release();
    expect(await state()).toEqual([false, 100, 0]);
  });

  it('commits when its nested transactions have ended', async () => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url, { fence: true });
    const runner = dataSource.createQueryRunner();
    await locks.withLock(stock.key, async () => {
      await runner.startTransaction();
      await runner.manager.transaction((inner) => stock.takeOne(inner));
      await runner.manager.transaction(() => outOfCredit()).catch(() => {});
      await runner.startTransaction();
      await stock.takeOne(runner);
      await runner.commitTransaction();
      await runner.commitTransaction();
    });
    await runner.release();
    expect(await state()).toEqual([false, 98, 0]);
  });
});

describe('a restart', () => {
  it('leaves nothing of the previous run, in which a nested transaction is still open', async () => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url, { insideTransaction: 'restart', fence: true });
    let late: ReturnType<typeof audit> | undefined;
    let runs = 0;
    await dataSource.transaction(async (manager) => {
      await manager.query('UPDATE stock SET quantity = quantity - 10 WHERE id = $1', [
        stock.product,
      ]);
      if (++runs === 1) {
        late = audit(onDataSource(manager));
        await late.isOpen;
      } else {
        late?.end();
        expect(await late?.told).toBe('failed');
      }
      await locks.withLock(stock.key, () => stock.takeOne(manager));
    });
    expect(runs).toBe(2);
    expect(await state()).toEqual([false, 89, 0]);
  });
});

describe('a nested transaction that outlives a transaction without locks', () => {
  it.each(['succeeds', 'fails'])(
    'does not touch the connection, which has another user, if that transaction %s',
    async (end) => {
      const shop = await (SHOPS['a data source'] as (fence: boolean) => Promise<Shop>)(true);
      let late: ReturnType<typeof audit> | undefined;
      const first = shop.transaction(async (opened) => {
        late = audit(opened);
        await late.isOpen;
        if (end === 'fails') await outOfCredit();
      });
      const told = await first.then(
        () => 'done',
        (error: Error) => error.message,
      );
      expect(told).toBe(end === 'fails' ? 'out of credit' : 'done');
      const other = someoneElse(shop, async () => {
        late?.end();
        expect(await late?.told).toBe('failed');
        await sleep(50); // by now, a closed connection has been noticed
      });
      expect(await other).toBe('committed');
      expect(await stock.quantity()).toBe(100);
    },
  );
});
