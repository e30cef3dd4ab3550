import { describe, expect, it } from '@jest/globals';
import {
  Propagation,
  TransactionAlreadyActiveError,
  TransactionNotActiveError,
} from '@nestjs-cls/transactional';
import { LockInTransactionError, LockLostError } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { setTimeout as sleep } from 'node:timers/promises';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';
import { type ClsApp, type ClsAppOptions, type Host, startClsApp } from './cls-app.js';
import { openDataSource } from './data-source.js';
import { isHeld } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

const held = (): Promise<boolean> => isHeld(redis.url, stock.key);

const start = (options: Partial<ClsAppOptions> = {}): Promise<ClsApp> =>
  startClsApp({
    redisUrl: redis.url,
    type: 'postgres',
    settings: postgres.settings,
    poolSize: 12,
    ...options,
  });

const { Required, RequiresNew, Nested, NotSupported, Never, Mandatory, Supports } = Propagation;

const takeOne = ({ host }: { host: Host }): Promise<void> => stock.takeOne(host.tx);

describe('without a transaction around', () => {
  it.each([Required, RequiresNew, Nested])('%s keeps a lock until its end', async (propagation) => {
    const app = await start({ insideTransaction: 'restart', fence: {} });
    await app.host.withTransaction(propagation, async () => {
      await app.locks.withLock(stock.key, () => takeOne(app));
      expect([await held(), await stock.quantity()]).toEqual([true, 100]);
    });
    expect([await held(), await stock.quantity()]).toEqual([false, 99]);
    const rejecting = await start();
    await expect(
      rejecting.host.withTransaction(propagation, () =>
        rejecting.locks.withLock(stock.key, async () => {}),
      ),
    ).rejects.toBeInstanceOf(LockInTransactionError);
  });

  it.each([NotSupported, Never, Supports])('%s has an ordinary lock', async (propagation) => {
    const app = await start({ fence: {} });
    await app.host.withTransaction(propagation, async () => {
      await app.locks.withLock(stock.key, () => takeOne(app));
      expect([await held(), await stock.quantity()]).toEqual([false, 99]);
    });
  });

  it('MANDATORY fails', async () => {
    const app = await start();
    const sale = async (): Promise<void> =>
      app.host.withTransaction(Mandatory, () => app.locks.withLock(stock.key, () => takeOne(app)));
    await expect(sale()).rejects.toBeInstanceOf(TransactionNotActiveError);
    expect(await held()).toBe(false);
  });
});

describe('inside a transaction', () => {
  it.each([Required, Mandatory, Supports, Nested, RequiresNew])(
    '%s keeps a lock until the outer one has ended',
    async (propagation) => {
      const app = await start({ insideTransaction: 'restart' });
      await app.host.withTransaction(async () => {
        await app.host.withTransaction(propagation, () =>
          app.locks.withLock(stock.key, () => takeOne(app)),
        );
        expect(await held()).toBe(true);
        expect(await stock.quantity()).toBe(propagation === RequiresNew ? 99 : 100);
      });
      expect([await held(), await stock.quantity()]).toEqual([false, 99]);
    },
  );

  it.each([Required, Mandatory, Supports, Nested, RequiresNew])(
    '%s is refused a lock',
    async (propagation) => {
      const app = await start();
      const sale = app.host.withTransaction(() =>
        app.host.withTransaction(propagation, () => app.locks.withLock(stock.key, async () => {})),
      );
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      expect(await held()).toBe(false);
    },
  );

  it('NOT_SUPPORTED has an ordinary lock', async () => {
    const app = await start({ fence: {} });
    await app.host.withTransaction(async () => {
      await app.host.withTransaction(NotSupported, async () => {
        await app.locks.withLock(stock.key, () => takeOne(app));
        expect([await held(), await stock.quantity()]).toEqual([false, 99]);
      });
    });
  });

  it('NEVER fails', async () => {
    const app = await start({ insideTransaction: 'restart' });
    const sale = app.host.withTransaction(async () =>
      app.host.withTransaction(Never, () => app.locks.withLock(stock.key, async () => {})),
    );
    await expect(sale).rejects.toBeInstanceOf(TransactionAlreadyActiveError);
    expect(await held()).toBe(false);
  });

  it.each([
    [Required, { fence: {} }],
    [Mandatory, { fence: {} }],
    [Supports, { fence: {} }],
    [Nested, { fence: {} }],
    [NotSupported, { fence: {} }],
    [RequiresNew, {}],
  ])('%s loses no update under restart', async (propagation, fenced) => {
    const app = await start({ insideTransaction: 'restart', poolSize: 25, ...fenced });
    await Promise.all(
      Array.from({ length: 10 }, () =>
        app.host.withTransaction({ isolationLevel: 'REPEATABLE READ' }, async () => {
          await app.host.tx.query('SELECT count(*) FROM stock');
          await app.host.withTransaction(propagation, () =>
            app.locks.withLock(stock.key, () => takeOne(app)),
          );
        }),
      ),
    );
    expect([await held(), await stock.quantity()]).toEqual([false, 90]);
  });

  it.each([Required, Mandatory, Supports, Nested])(
    '%s is guarded by a lock outside both, with one claim',
    async (propagation) => {
      const app = await start({ fence: {} });
      await app.locks.withLock(stock.key, async ({ fencingToken }) => {
        await app.host.withTransaction(() =>
          app.host.withTransaction(propagation, () =>
            app.locks.withLock(stock.key, () => takeOne(app)),
          ),
        );
        expect(await stock.fence()).toBe(fencingToken);
      });
      expect(await stock.quantity()).toBe(99);
      const lost = app.locks.withLock(stock.key, () =>
        app.host.withTransaction(() =>
          app.host.withTransaction(propagation, async () => {
            await takeOne(app);
            await app.locks.forceRelease(stock.key);
            await sleep(50);
          }),
        ),
      );
      await expect(lost).rejects.toBeInstanceOf(LockLostError);
      expect(await stock.quantity()).toBe(99);
    },
  );
});

describe('REQUIRES_NEW', () => {
  it('is refused a lock with a fence, whether the lock is free or not', async () => {
    const app = await start({ insideTransaction: 'restart', fence: {} });
    const sell = (): Promise<void> =>
      app.host.withTransaction(() =>
        app.host.withTransaction(RequiresNew, () =>
          app.locks.withLock(stock.key, () => takeOne(app)),
        ),
      );
    await expect(sell()).rejects.toThrow(/each would wait for the other/);
    const other = app.locks.withLock(stock.key, () => sleep(100));
    await expect(sell()).rejects.toThrow(/each would wait for the other/);
    await other;
    expect([await held(), await stock.quantity()]).toEqual([false, 100]);
  });

  it('does not let the outer transaction commit after the loss of a lock taken inside', async () => {
    const app = await start({ insideTransaction: 'restart' });
    const sale = app.host.withTransaction(async () => {
      await app.host.withTransaction(RequiresNew, () =>
        app.locks.withLock(stock.key, async () => {}),
      );
      await app.locks.withLock(stock.key, () => takeOne(app));
      await app.locks.forceRelease(stock.key);
      await sleep(50);
    });
    await expect(sale).rejects.toBeInstanceOf(LockLostError);
    expect(await stock.quantity()).toBe(100);
  });

  it('restarts for a lock if the outer transaction has an old snapshot', async () => {
    const app = await start({ insideTransaction: 'restart' });
    let runs = 0;
    await app.host.withTransaction({ isolationLevel: 'REPEATABLE READ' }, async () => {
      runs++;
      await app.host.tx.query('SELECT count(*) FROM stock');
      await app.host.withTransaction(RequiresNew, { isolationLevel: 'READ COMMITTED' }, () =>
        app.locks.withLock(stock.key, async () => {}),
      );
      await app.locks.withLock(stock.key, () => takeOne(app));
    });
    expect([runs, await stock.quantity()]).toEqual([2, 99]);
  });
});

describe('branches of one transaction', () => {
  it.each([Required, Nested])('take their locks one after the other in %s', async (propagation) => {
    const app = await start({ insideTransaction: 'restart' });
    const inside = <T>(work: () => Promise<T>): Promise<T> =>
      app.host.withTransaction(propagation, work);
    await app.host.withTransaction(async () => {
      await Promise.all([
        inside(() =>
          app.locks.withLock(stock.key, async () => {
            await sleep(50);
            await app.locks.withLock(`${stock.key}:more`, () => sleep(10));
          }),
        ),
        sleep(20).then(() => app.locks.withLock(stock.key, () => sleep(10))),
      ]);
    });
    expect(await held()).toBe(false);
  });
});

describe('a lock that was taken inside a transaction', () => {
  it('is released if its claim fails', async () => {
    const app = await start({ insideTransaction: 'restart', fence: { table: 'nowhere' } });
    const sale = app.host.withTransaction(() => app.locks.withLock(stock.key, async () => {}));
    await expect(sale).rejects.toThrow(/'nowhere' does not exist/);
    expect(await held()).toBe(false);
  });
});

describe('lockAwareDataSource on the adapter and on the data source', () => {
  it('is harmless', async () => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 12));
    const app = await start({ dataSource, insideTransaction: 'restart', fence: {} });
    await Promise.all([
      ...Array.from({ length: 10 }, () =>
        app.locks.withLock(stock.key, () => app.host.withTransaction(() => takeOne(app))),
      ),
      ...Array.from({ length: 10 }, () =>
        app.host.withTransaction({ isolationLevel: 'REPEATABLE READ' }, async () => {
          await app.host.tx.query('SELECT count(*) FROM stock');
          await app.host.withTransaction(Nested, () =>
            app.locks.withLock(stock.key, () => takeOne(app)),
          );
        }),
      ),
    ]);
    expect([await held(), await stock.quantity()]).toEqual([false, 80]);
    const rejecting = await start({ dataSource });
    await rejecting.host.withTransaction(async () => {
      await expect(rejecting.locks.withLock(stock.key, async () => {})).rejects.toBeInstanceOf(
        LockInTransactionError,
      );
    });
  });
});

describe.each(['restart', 'join'] as const)('a call outside of the transaction, with %s', (how) => {
  it('keeps no key taken for an abandoned run, although it has joined its lock', async () => {
    const { host, locks } = await start({ insideTransaction: 'restart' });
    const second = uniqueKey('second');
    const keep = { holdAtLeastMs: 5_000 } as const;
    let runs = 0;
    await host.withTransaction(async () => {
      runs++;
      const options = { ...keep, insideTransaction: how, waitMs: 0, onBusy: 'skip' } as const;
      await locks.withLock(stock.key, options, async () => {
        await takeOne({ host });
        await host.withTransaction(NotSupported, () => locks.withLock(stock.key, keep, () => {}));
      });
      await locks.withLock(second, () => {});
    });
    expect([runs, await stock.quantity(), await held()]).toEqual([
      how === 'restart' ? 3 : 2,
      99,
      true,
    ]);
  });
});
