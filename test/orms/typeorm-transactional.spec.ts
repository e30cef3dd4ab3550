import { beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import {
  Locked,
  LockFencedError,
  LockInTransactionError,
  LockLostError,
  LockService,
  type RedisLockModuleOptions,
} from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { DataSource } from 'typeorm';
import {
  addTransactionalDataSource,
  deleteDataSourceByName,
  initializeTransactionalContext,
  IsolationLevel,
  Propagation,
  runInTransaction,
  runOnTransactionCommit,
  runOnTransactionComplete,
  runOnTransactionRollback,
  StorageDriver,
  Transactional,
} from 'typeorm-transactional';
import { setImmediate as setImmediatePromise, setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from '../transactions/data-source.js';
import { giveAway, isHeld, startLocks } from '../transactions/locks.js';
import { useStock } from '../transactions/stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

beforeAll(
  () => void initializeTransactionalContext({ storageDriver: StorageDriver.ASYNC_LOCAL_STORAGE }),
);

const held = (): Promise<boolean> => isHeld(redis.url, stock.key);

@Injectable()
class Shop {
  constructor(
    readonly dataSource: DataSource,
    readonly locks: LockService,
  ) {}

  @Locked('stock:<id>')
  @Transactional()
  async sellInRightOrder(id: string): Promise<void> {
    expect(id).toBe(stock.product);
    await stock.takeOne(this.dataSource);
  }

  @Transactional()
  @Locked('stock:<id>')
  async sellInWrongOrder(id: string): Promise<void> {
    expect(id).toBe(stock.product);
    await stock.takeOne(this.dataSource);
  }

  @Transactional({ isolationLevel: IsolationLevel.REPEATABLE_READ })
  async sellAfterReading(): Promise<void> {
    await this.dataSource.query('SELECT count(*) FROM stock');
    await this.sellLocked();
  }

  @Transactional()
  async sellLocked(): Promise<void> {
    await this.locks.withLock(stock.key, () => stock.takeOne(this.dataSource));
  }

  @Transactional({ propagation: Propagation.REQUIRES_NEW })
  async sellInNewTransaction(): Promise<void> {
    await this.locks.withLock(stock.key, () => stock.takeOne(this.dataSource));
  }

  @Transactional({ propagation: Propagation.NESTED })
  async sellNested(): Promise<void> {
    await this.locks.withLock(stock.key, () => stock.takeOne(this.dataSource));
  }

  @Transactional({ propagation: Propagation.NOT_SUPPORTED })
  async sellWithoutTransaction(): Promise<void> {
    await this.locks.withLock(stock.key, async () => {
      expect(await held()).toBe(true);
      await stock.takeOne(this.dataSource);
    });
  }
}

describe.each(['before', 'after'] as const)(
  'lockAwareDataSource %s addTransactionalDataSource',
  (when) => {
    let dataSource: DataSource;

    beforeEach(async () => {
      dataSource = await openDataSource('postgres', postgres.settings);
      if (when === 'before') lockAwareDataSource(dataSource, { runInTransaction });
      addTransactionalDataSource(dataSource);
      afterTest(() => deleteDataSourceByName('default'));
      if (when === 'after') lockAwareDataSource(dataSource, { runInTransaction });
    });

    const start = async (
      options: Omit<RedisLockModuleOptions, 'connection'> = {},
    ): Promise<{ shop: Shop; locks: LockService }> => {
      const providers = [Shop, { provide: DataSource, useValue: dataSource }];
      const { app, locks } = await startLocks(redis.url, options, providers);
      return { shop: app.get(Shop), locks };
    };

    it('loses no update in the right order', async () => {
      const { shop } = await start({ fence: {} });
      await Promise.all(Array.from({ length: 20 }, () => shop.sellInRightOrder(stock.product)));
      expect([await stock.quantity(), await held()]).toEqual([80, false]);
      expect(await stock.fence()).toBeGreaterThan(0);
    });

    it('refuses the wrong order', async () => {
      const { shop } = await start();
      const failure: unknown = await shop
        .sellInWrongOrder(stock.product)
        .catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(LockInTransactionError);
      expect((failure as Error).message).toMatch(/^Shop\.sellInWrongOrder: lock 'stock:/);
      expect([await stock.quantity(), await held()]).toEqual([100, false]);
    });

    it.each([
      ['in the wrong order', (shop: Shop) => shop.sellInWrongOrder(stock.product)],
      ['after reading at REPEATABLE READ', (shop: Shop) => shop.sellAfterReading()],
    ])('restarts %s, and loses no update', async (_, sell) => {
      const { shop } = await start({ insideTransaction: 'restart', fence: {} });
      await Promise.all(Array.from({ length: 20 }, () => sell(shop)));
      expect([await stock.quantity(), await held()]).toEqual([80, false]);
    });

    it('runs no body after a newer holder, and commits nothing after a loss', async () => {
      const { shop, locks } = await start({ fence: {} });
      const lost = locks.withLock(stock.key, () =>
        runInTransaction(async () => {
          await shop.sellInWrongOrder(stock.product);
          await locks.forceRelease(stock.key);
          await sleep(50);
        }),
      );
      await expect(lost).rejects.toBeInstanceOf(LockLostError);
      const fenced = locks.withLock(stock.key, async ({ fencingToken }) => {
        await giveAway(redis.url, stock.key);
        await stock.raiseFence(fencingToken + 10_000_000);
        await runInTransaction(() => stock.takeOne(dataSource));
      });
      await expect(fenced).rejects.toBeInstanceOf(LockFencedError);
      expect(await stock.quantity()).toBe(100);
    });

    it.each([
      ['REQUIRES_NEW', (shop: Shop) => shop.sellInNewTransaction()],
      ['NESTED (a new transaction there)', (shop: Shop) => shop.sellNested()],
    ])('keeps a lock from %s until the outer transaction has ended', async (_, sell) => {
      const { shop } = await start({ insideTransaction: 'restart' });
      await runInTransaction(async () => {
        await sell(shop);
        expect([await held(), await stock.quantity()]).toEqual([true, 99]);
      });
      expect(await held()).toBe(false);
    });

    it('guards both transactions by an outer lock, but claims only one', async () => {
      const { shop, locks } = await start();
      await locks.withLock(stock.key, () => runInTransaction(() => shop.sellInNewTransaction()));
      expect(await stock.quantity()).toBe(99);
      const fenced = await start({ fence: {} });
      const sale = fenced.locks.withLock(stock.key, () =>
        runInTransaction(() => fenced.shop.sellInNewTransaction()),
      );
      await expect(sale).rejects.toThrow(/each would wait for the other/);
    });

    /**
     * Until it has been examined once, a transaction of the decorator is indistinguishable from one that is opened by
     * hand.
     */
    it('never runs unlocked under NOT_SUPPORTED: at first it is refused, or the transaction keeps the lock', async () => {
      const { shop, locks } = await start();
      await runInTransaction(async () => {
        await expect(shop.sellWithoutTransaction()).rejects.toBeInstanceOf(LockInTransactionError);
        await expect(locks.withLock(stock.key, async () => {})).rejects.toBeInstanceOf(
          LockInTransactionError,
        );
        await shop.sellWithoutTransaction(); // an ordinary lock
        expect([await held(), await stock.quantity()]).toEqual([false, 99]);
      });
      const restarting = await start({ insideTransaction: 'restart' });
      await Promise.all(
        Array.from({ length: 5 }, () =>
          runInTransaction(() => restarting.shop.sellWithoutTransaction()),
        ),
      );
      expect([await held(), await stock.quantity()]).toEqual([false, 94]);
    });

    it('does not fire the hooks of a rolled back run with the commit [R58, D67]', async () => {
      const { locks } = await start({ insideTransaction: 'restart' });
      let runs = 0;
      const hooks: string[] = [];
      await runInTransaction(async () => {
        const run = ++runs;
        runOnTransactionCommit(() => hooks.push(`mail of run ${run}`));
        runOnTransactionRollback(() => hooks.push(`undo run ${run}`));
        runOnTransactionComplete((error) => hooks.push(`end of run ${run}: ${error?.name}`));
        await locks.withLock(stock.key, () => stock.takeOne(dataSource));
      });
      await setImmediatePromise();
      expect(hooks).toEqual([
        'undo run 1',
        'end of run 1: TransactionRestart',
        'mail of run 2',
        'end of run 2: undefined',
      ]);
    });

    it('would fire them without a hook context per run: the control [D67]', async () => {
      const hooks: string[] = [];
      await runInTransaction(async () => {
        const run = (n: number): Promise<void> =>
          dataSource.manager.transaction(async () => {
            runOnTransactionCommit(() => hooks.push(`mail of run ${n}`));
            if (n === 1) throw new Error('begin anew');
          });
        await run(1).catch(() => run(2));
      });
      await setImmediatePromise();
      expect(hooks).toEqual(['mail of run 1', 'mail of run 2']);
    });

    it('runs the hooks of a new inner transaction each time it is committed', async () => {
      const { locks } = await start({ insideTransaction: 'restart' });
      const hooks: string[] = [];
      await runInTransaction(async () => {
        await runInTransaction(async () => runOnTransactionCommit(() => hooks.push('inner')), {
          propagation: Propagation.REQUIRES_NEW,
        });
        runOnTransactionCommit(() => hooks.push('outer'));
        await locks.withLock(stock.key, () => stock.takeOne(dataSource));
      });
      await setImmediatePromise();
      expect(hooks).toEqual(['inner', 'inner', 'outer']);
    });

    it('code of an abandoned run cannot reach the database', async () => {
      const { locks } = await start({ insideTransaction: 'restart' });
      const over = makeGate();
      let runs = 0;
      const late: Promise<string>[] = [];
      await runInTransaction(async () => {
        if (runs++ === 0) {
          const sell = async (): Promise<void> => {
            await over.opened;
            await stock.takeOne(dataSource);
          };
          late.push(
            sell().then(
              () => 'sold',
              (error: Error) => error.name,
            ),
          );
        }
        await locks.withLock(stock.key, () => stock.takeOne(dataSource));
      });
      over.open();
      expect(await Promise.all(late)).toEqual(['TransactionRestart']);
      expect([runs, await stock.quantity()]).toEqual([2, 99]);
    });

    it('code of a failed transaction cannot reach the database [D65]', async () => {
      const { locks } = await start();
      const over = makeGate();
      let late: Promise<unknown> | undefined;
      const failing = locks.withLock(stock.key, () =>
        runInTransaction(async () => {
          late = over.opened.then(() => stock.takeOne(dataSource));
          late.catch(() => {});
          throw new Error('over');
        }),
      );
      await expect(failing).rejects.toThrow('over');
      over.open();
      await expect(late).rejects.toThrow(
        /It is being rolled back, because another branch of it has failed/,
      );
      expect(await stock.quantity()).toBe(100);
    });

    it('lets the hooks of a rollback write, and the code that catches its error [D65]', async () => {
      await start();
      let hooked: Promise<unknown> | undefined;
      await runInTransaction(async () => {
        runOnTransactionRollback(() => void (hooked = stock.takeOne(dataSource)));
        throw new Error('over');
      }).catch(() => stock.takeOne(dataSource));
      await setImmediatePromise();
      await expect(hooked).resolves.not.toThrow();
      expect(await stock.quantity()).toBeLessThan(100);
    });

    it('detects a transaction that is opened without the decorator, even inside another one', async () => {
      const { locks } = await start();
      const asking = (): Promise<void> => locks.withLock(stock.key, async () => {});
      await expect(dataSource.transaction(asking)).rejects.toBeInstanceOf(LockInTransactionError);
      await expect(runInTransaction(() => dataSource.transaction(asking))).rejects.toBeInstanceOf(
        LockInTransactionError,
      );
    });
  },
);

describe('lockAwareDataSource without the hooks of typeorm-transactional', () => {
  it('refuses to restart its transactions: hooks of the first run would fire [D67]', async () => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
    addTransactionalDataSource(dataSource);
    afterTest(() => deleteDataSourceByName('default'));
    const { locks } = await startLocks(redis.url, { insideTransaction: 'restart' });
    const sale = runInTransaction(() => locks.withLock(stock.key, () => stock.takeOne(dataSource)));
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    await expect(sale).rejects.toThrow(/pass { runInTransaction } of typeorm-transactional/);
    await locks.withLock(stock.key, () => runInTransaction(() => stock.takeOne(dataSource)));
    expect(await stock.quantity()).toBe(99);
  });
});
