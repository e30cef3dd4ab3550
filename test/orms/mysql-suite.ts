import { expect, it } from '@jest/globals';
import { Propagation } from '@nestjs-cls/transactional';
import {
  LockConfigError,
  LockFencedError,
  LockInTransactionError,
  LockLostError,
} from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TestDatabase } from '../support/databases.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';
import {
  type ClsApp,
  type ClsAppOptions,
  type Host,
  startClsApp,
} from '../transactions/cls-app.js';
import { openDataSource } from '../transactions/data-source.js';
import { giveAway, isHeld } from '../transactions/locks.js';
import { type Stock, useStock } from '../transactions/stock.js';

const ISOLATIONS = ['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'] as const;

/** The tests for both MariaDB and MySQL. Call it where `describe` may be called. */
export function mysqlSuite(useDatabase: () => TestDatabase): void {
  const redis = useRedis();
  const database = useDatabase();
  const stock: Stock = useStock(database, 'mysql');

  const held = (): Promise<boolean> => isHeld(redis.url, stock.key);

  const start = (options: Partial<ClsAppOptions> = {}): Promise<ClsApp> =>
    startClsApp({
      redisUrl: redis.url,
      type: 'mysql',
      settings: database.settings,
      ...options,
    });

  const takeOne = ({ host }: { host: Host }): Promise<void> => stock.takeOne(host.tx);
  /** Reads in the transaction, then changes the row outside of it. */
  const outdateSnapshot = async ({ host }: { host: Host }): Promise<void> => {
    await host.tx.query('SELECT quantity FROM stock');
    await database.query('UPDATE stock SET quantity = 50 WHERE id = ?', [stock.product]);
  };

  it.each(ISOLATIONS)('loses no update in the right order at %s', async (isolationLevel) => {
    const app = await start({ fence: {} });
    await Promise.all(
      Array.from({ length: 20 }, () =>
        app.locks.withLock(stock.key, () =>
          app.host.withTransaction({ isolationLevel }, () => takeOne(app)),
        ),
      ),
    );
    expect([await held(), await stock.quantity()]).toEqual([false, 80]);
  });

  it.each(ISOLATIONS)('lets readers claim at the same time at %s', async (isolationLevel) => {
    const app = await start({ fence: {} });
    await stock.raiseFence(1);
    let inside = 0;
    const both = makeGate();
    const read = () =>
      app.locks.withLock(stock.key, { mode: 'shared' }, () =>
        app.host.withTransaction({ isolationLevel }, async () => {
          if (++inside === 2) both.open();
          await both.opened;
        }),
      );
    await Promise.all([read(), read()]);
    expect(await stock.fence()).toBe(1);
  });

  it('refuses a lock inside a transaction', async () => {
    const { host, locks } = await start();
    await expect(
      host.withTransaction(() => locks.withLock(stock.key, async () => {})),
    ).rejects.toBeInstanceOf(LockInTransactionError);
    expect(await held()).toBe(false);
  });

  it.each(['/*! COMMIT */', '# done\nCOMMIT', '/* /* */ COMMIT'])(
    'refuses a statement that would end the transaction: %s',
    async (statement) => {
      const app = await start();
      const sale = app.locks.withLock(stock.key, () =>
        app.host.withTransaction(async () => {
          await takeOne(app);
          await app.host.tx.query(statement).catch(() => {});
        }),
      );
      await expect(sale).rejects.toThrow(/only the code that has opened it may do/);
      expect(await stock.quantity()).toBe(100);
    },
  );

  it('allows a statement that does not end the transaction', async () => {
    const app = await start();
    await app.locks.withLock(stock.key, () =>
      app.host.withTransaction(async () => {
        await takeOne(app);
        await app.host.tx.query(String.raw`SELECT 'it\'s; COMMIT', "; COMMIT" # ; COMMIT`);
      }),
    );
    expect(await stock.quantity()).toBe(99);
  });

  it('learns from the server of a procedure whose creation has committed', async () => {
    const app = await start();
    const sale = app.locks.withLock(stock.key, () =>
      app.host.withTransaction(() =>
        app.host.tx.query('CREATE OR REPLACE PROCEDURE p() BEGIN SELECT 1; COMMIT; END'),
      ),
    );
    await expect(sale).rejects.toThrow(/DDL on MySQL/);
  });

  it.each(ISOLATIONS)(
    'restarts a transaction that has already read at %s, and loses no update',
    async (isolationLevel) => {
      const app = await start({ insideTransaction: 'restart', fence: {} });
      let runs = 0;
      await Promise.all(
        Array.from({ length: 20 }, () =>
          app.host.withTransaction({ isolationLevel }, async () => {
            runs++;
            await app.host.tx.query('SELECT count(*) FROM stock');
            await app.locks.withLock(stock.key, () => takeOne(app));
          }),
        ),
      );
      expect([await held(), await stock.quantity()]).toEqual([false, 80]);
      expect(runs).toBeGreaterThan(20);
      expect(runs).toBeLessThanOrEqual(40);
    },
  );

  it('restarts for a free lock if the snapshot is older than it', async () => {
    const app = await start({ insideTransaction: 'restart' });
    let runs = 0;
    await app.host.withTransaction(async () => {
      if (runs++ === 0) await outdateSnapshot(app);
      await app.locks.withLock(stock.key, () => takeOne(app));
    });
    expect([runs, await stock.quantity()]).toEqual([2, 49]);
  });

  it('restarts the outer transaction, whose snapshot is old, for a lock in a new inner one', async () => {
    const app = await start({ insideTransaction: 'restart' });
    let runs = 0;
    await app.host.withTransaction(async () => {
      if (runs++ === 0) await outdateSnapshot(app);
      await app.host.withTransaction(
        Propagation.RequiresNew,
        { isolationLevel: 'READ COMMITTED' },
        () => app.locks.withLock(stock.key, async () => {}),
      );
      await app.locks.withLock(stock.key, () => takeOne(app));
    });
    expect([runs, await stock.quantity()]).toEqual([2, 49]);
  });

  it('knows the isolation level of the data source, which a session does not report', async () => {
    const app = await start({
      insideTransaction: 'restart',
      poolSize: 1,
      dataSource: await openDataSource('mysql', database.settings, 1, {
        isolationLevel: 'REPEATABLE READ',
      }),
    });
    await app.dataSource.query('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED');
    let runs = 0;
    await app.host.withTransaction(async () => {
      if (runs++ === 0) await outdateSnapshot(app);
      await app.locks.withLock(stock.key, () => takeOne(app));
    });
    expect([runs, await stock.quantity()]).toEqual([2, 49]);
  });

  it('waits inside under join, but not on an old snapshot', async () => {
    const app = await start({ insideTransaction: 'join', fence: {} });
    await Promise.all(
      Array.from({ length: 4 }, () =>
        app.host.withTransaction({ isolationLevel: 'READ COMMITTED' }, () =>
          app.locks.withLock(stock.key, () => takeOne(app)),
        ),
      ),
    );
    expect(await stock.quantity()).toBe(96);
    const sell = (): Promise<void> => app.locks.withLock(stock.key, async () => {});
    // One after the other: a rejection that is not awaited yet would fail the test.
    await expect(app.host.withTransaction(sell)).rejects.toThrow(/snapshot of its first read/);
    await expect(
      app.host.withTransaction({ isolationLevel: 'REPEATABLE READ' }, sell),
    ).rejects.toThrow(/snapshot of its first read/);
  });

  it('claims before the body runs', async () => {
    const { host, locks } = await start({ fence: {} });
    await locks.withLock([stock.key, uniqueKey()], async () => {
      const { fencingToken } = locks.current(stock.key) ?? {};
      await host.withTransaction(async () => {
        const [row] = await host.tx.query<{ token: string }[]>(
          'SELECT token FROM lock_fence WHERE lock_key = ?',
          [stock.key],
        );
        expect(Number(row?.token)).toBe(fencingToken);
      });
      expect(await stock.fence()).toBe(fencingToken);
    });
  });

  it('claims keys without a row, by many at once', async () => {
    const app = await start({ fence: {}, poolSize: 12 });
    const products = Array.from({ length: 24 }, () => uniqueKey());
    await Promise.all(
      products.map((product) =>
        app.locks.withLock(product, () =>
          app.host.withTransaction(() => app.host.tx.query('SELECT 1')),
        ),
      ),
    );
    const rows = await database.query('SELECT 1 FROM lock_fence WHERE lock_key IN (?)', [products]);
    expect(rows).toHaveLength(24);
  });

  it('refuses a holder after a newer one, before the body runs', async () => {
    const { host, locks } = await start({ fence: {} });
    let ran = false;
    const sale = locks.withLock(stock.key, async ({ fencingToken }) => {
      await giveAway(redis.url, stock.key);
      await stock.raiseFence(fencingToken + 10_000_000);
      await host.withTransaction(async () => void (ran = true));
    });
    await expect(sale).rejects.toBeInstanceOf(LockFencedError);
    expect(ran).toBe(false);
  });

  it('continues from the number in the database if Redis has lost its own', async () => {
    const app = await start({ fence: {} });
    const ahead = Date.now() * 1_000 + 3_600_000_000;
    await stock.raiseFence(ahead);
    await app.locks.withLock(stock.key, async (lock) => {
      await app.host.withTransaction(() => takeOne(app));
      expect(lock.fencingToken).toBeGreaterThan(ahead);
      expect(await stock.fence()).toBe(lock.fencingToken);
    });
    expect(await stock.quantity()).toBe(99);
  });

  it('continues from these numbers for several keys in one call', async () => {
    const { host, locks } = await start({ fence: {} });
    const ahead = Date.now() * 1_000 + 3_600_000_000;
    const keys = Array.from({ length: 10 }, (_, n) => uniqueKey(`behind-${n}`));
    for (const [n, key] of keys.entries()) {
      await database.query('INSERT INTO lock_fence VALUES (?, ?)', [key, ahead + n]);
    }
    await locks.withLock([...keys, stock.key], async (lock) => {
      await host.withTransaction(async () => {});
      for (const [n, key] of keys.entries()) {
        expect(lock.fencingTokenOf(key)).toBeGreaterThan(ahead + n);
      }
    });
  });

  it('names the rights that are missing for the fence table', async () => {
    const { user, password } = { user: `u${Date.now()}`, password: 'secret' };
    await database.query(`CREATE USER ${user}@'%' IDENTIFIED BY '${password}'`);
    await database.query(`GRANT SELECT ON ${database.settings.database}.stock TO ${user}@'%'`);
    const dataSource = await openDataSource('mysql', { ...database.settings, user, password });
    const { host, locks } = await start({ fence: {}, dataSource });
    const sale = locks.withLock(stock.key, () => host.withTransaction(async () => {}));
    await expect(sale).rejects.toBeInstanceOf(LockConfigError);
    await expect(sale).rejects.toThrow(/GRANT SELECT, INSERT, UPDATE ON lock_fence/);
    await database.query(`DROP USER ${user}@'%'`);
  });

  it('makes the claims of two holders follow each other, and the later one reads the writes of the earlier', async () => {
    const app = await start({ fence: {} });
    const earlier = (await openDataSource('mysql', database.settings)).createQueryRunner();
    await stock.raiseFence(1);
    await earlier.startTransaction();
    await earlier.query('UPDATE lock_fence SET token = 2 WHERE lock_key = ?', [stock.key]);
    await stock.takeOne(earlier);
    const later = app.locks.withLock(stock.key, () => app.host.withTransaction(() => takeOne(app)));
    await sleep(200);
    await earlier.commitTransaction();
    await earlier.release();
    await later;
    expect(await stock.quantity()).toBe(98);
  });

  it('does not commit without its claim, although the error of the claim was swallowed', async () => {
    const app = await start({ fence: {}, insideTransaction: 'join', poolSize: 1 });
    await app.dataSource.query('SET SESSION innodb_lock_wait_timeout = 1');
    const earlier = (await openDataSource('mysql', database.settings)).createQueryRunner();
    await stock.raiseFence(1);
    await earlier.startTransaction();
    await earlier.query('UPDATE lock_fence SET token = 2 WHERE lock_key = ?', [stock.key]);
    const sale = app.host.withTransaction({ isolationLevel: 'READ COMMITTED' }, async () => {
      await app.locks.withLock(stock.key, async () => {}).catch(() => {});
      await app.locks.withLock(stock.key, () => takeOne(app)).catch(() => {});
    });
    await expect(sale).rejects.toThrow(/still has the transaction of an earlier holder open/);
    await earlier.rollbackTransaction();
    await earlier.release();
    expect([await held(), await stock.quantity()]).toEqual([false, 100]);
  });

  it('commits nothing after the lease was lost', async () => {
    const app = await start();
    const sale = app.locks.withLock(stock.key, () =>
      app.host.withTransaction(async () => {
        await takeOne(app);
        await app.locks.forceRelease(stock.key);
        await sleep(50);
      }),
    );
    await expect(sale).rejects.toBeInstanceOf(LockLostError);
    expect(await stock.quantity()).toBe(100);
  });

  it('turns a swallowed deadlock into an error [D79]', async () => {
    const app = await start();
    const other = uniqueKey('product');
    await database.query('INSERT INTO stock VALUES (?, 100)', [other]);
    const rival = (await openDataSource('mysql', database.settings)).createQueryRunner();
    const touch = 'UPDATE stock SET quantity = quantity - 1 WHERE id = ?';
    let swallowed: unknown;
    await rival.startTransaction();
    // In a deadlock, the database rolls back the smaller transaction.
    await rival.query('UPDATE stock SET quantity = quantity + 0 WHERE id = ?', [other]);
    for (let i = 0; i < 20; i++) {
      await rival.query('INSERT INTO stock VALUES (?, 1)', [uniqueKey('ballast')]);
    }
    const sale = app.locks.withLock(stock.key, () =>
      app.host.withTransaction(async () => {
        await takeOne(app);
        const waiting = rival.query(touch, [stock.product]);
        await sleep(100);
        await app.host.tx.query(touch, [other]).catch((error: unknown) => (swallowed = error));
        await waiting;
        return 'sold';
      }),
    );
    await expect(sale).rejects.toThrow(/has ended the transaction before its COMMIT/);
    expect(swallowed).toMatchObject({ driverError: { errno: 1213 } });
    expect(await held()).toBe(false);
    await rival.rollbackTransaction();
    await rival.release();
    expect(await stock.quantity()).toBe(100);
  });

  it('does not mistake a transaction for whole that a statement has committed in between [D79]', async () => {
    const app = await start();
    const sale = app.locks.withLock(stock.key, () =>
      app.host.withTransaction(async () => {
        await app.host.tx.query('CREATE TABLE IF NOT EXISTS made (id int)');
        await takeOne(app);
      }),
    );
    await expect(sale).rejects.toThrow(/a statement has ended it/);
  });

  it('says why a read-only transaction cannot be claimed', async () => {
    const app = await start({ fence: {}, poolSize: 1 });
    await app.dataSource.query('SET SESSION TRANSACTION READ ONLY');
    const sale = app.locks.withLock(stock.key, () => app.host.withTransaction(async () => {}));
    await expect(sale).rejects.toBeInstanceOf(LockConfigError);
    await expect(sale).rejects.toThrow(/read-only transaction/);
  });

  it('is free at once if the connection died before', async () => {
    const app = await start();
    const sale = app.locks.withLock(stock.key, () =>
      app.host.withTransaction(async () => {
        await takeOne(app);
        const [row] = await app.host.tx.query<{ id: number }[]>('SELECT connection_id() AS id');
        await database.query(`KILL CONNECTION ${row?.id}`);
        await sleep(50);
        await app.host.tx.query('SELECT 1');
      }),
    );
    await expect(sale).rejects.toThrow();
    expect([await held(), await stock.quantity()]).toEqual([false, 100]);
  });

  it.each([
    ['resolves', /a nested transaction .* is still open/],
    ['fails', 'out of credit'],
  ] as const)(
    'writes nothing if the body %s while a nested transaction is open',
    async (end, message) => {
      const app = await start({ fence: {}, poolSize: 1 });
      let endNested = (): void => {};
      let nested: Promise<unknown> | undefined;
      const sale = app.locks.withLock(stock.key, () =>
        app.host.withTransaction(async () => {
          await takeOne(app);
          await new Promise<void>((isOpen) => {
            nested = app.host
              .withTransaction(Propagation.Nested, async () => {
                isOpen();
                await new Promise<void>((resolve) => (endNested = resolve));
              })
              .catch((error: unknown) => error);
          });
          if (end === 'fails') throw new Error('out of credit');
        }),
      );
      await expect(sale).rejects.toThrow(message);
      expect([await held(), await stock.quantity()]).toEqual([false, 100]);
      await app.dataSource.transaction(async (manager) => {
        await manager.query('SELECT 1');
        endNested();
        expect(await nested).toBeInstanceOf(Error);
        await manager.query('SELECT 2');
      });
      expect(await stock.quantity()).toBe(100);
    },
  );
}
