import { expect, it } from '@jest/globals';
import { createConnection } from 'mysql2/promise';
import type { LockOptions } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import { useMariaDb } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';
import { startClsApp } from '../transactions/cls-app.js';
import { openDataSource } from '../transactions/data-source.js';
import { isHeld } from '../transactions/locks.js';
import { useStock } from '../transactions/stock.js';
import { mysqlSuite } from './mysql-suite.js';

describeWithMariaDb('MariaDB', () => mysqlSuite(useMariaDb));

describeWithMariaDb('A COMMIT of MariaDB', () => {
  const redis = useRedis();
  const mariaDb = useMariaDb();
  const stock = useStock(mariaDb, 'mysql');
  const held = (): Promise<boolean> => isHeld(redis.url, stock.key);

  it('is in doubt if the connection died while it committed', async () => {
    const app = await startClsApp({
      redisUrl: redis.url,
      type: 'mysql',
      settings: mariaDb.settings,
    });
    const options: LockOptions = { leaseMs: 1_500, waitMs: 6_000 };
    const startedAt = performance.now();
    const blocker = (await openDataSource('mysql', mariaDb.settings)).createQueryRunner();
    let id: unknown;
    const sale = app.locks.withLock(stock.key, options, () =>
      app.host.withTransaction(async () => {
        await stock.takeOne(app.host.tx);
        [{ id }] = await app.host.tx.query<[{ id: unknown }]>('SELECT connection_id() AS id');
        await blocker.query('BACKUP STAGE START');
        await blocker.query('BACKUP STAGE BLOCK_COMMIT');
      }),
    );
    const failure = expect(sale).rejects.toThrow();
    await sleep(400);
    await mariaDb.query(`KILL CONNECTION ${String(id)}`);
    await failure;
    expect(await held()).toBe(true);
    await blocker.query('BACKUP STAGE END');
    await blocker.release();
    const next = app.locks.withLock(stock.key, options, async () => performance.now() - startedAt);
    expect(await next).toBeGreaterThan(1_400);
  });
});

describeWithMariaDb('A transaction on MariaDB', () => {
  const redis = useRedis();
  const mariaDb = useMariaDb();
  const stock = useStock(mariaDb, 'mysql');

  it('takes three more statements under a lock, however many keys it has', async () => {
    const { locks, host, dataSource } = await startClsApp({
      redisUrl: redis.url,
      type: 'mysql',
      settings: mariaDb.settings,
      poolSize: 1,
      fence: {},
    });
    const sent = async (): Promise<number> => {
      const [row] = await dataSource.query<[{ Value: string }]>(
        "SHOW SESSION STATUS LIKE 'Questions'",
      );
      return Number(row.Value);
    };
    const sold = async (): Promise<number> => {
      const before = await sent();
      await host.withTransaction(() => stock.takeOne(host.tx, 0));
      return (await sent()) - before;
    };
    const plain = await sold();
    expect(await locks.withLock(stock.key, sold)).toBe(plain + 3);
    expect(await locks.withLock([stock.key, uniqueKey('a'), uniqueKey('b')], sold)).toBe(plain + 3);
    expect(await stock.quantity()).toBe(97);
  });
});

describeWithMariaDb('A claim on MariaDB', () => {
  const redis = useRedis();
  const mariaDb = useMariaDb();
  const stock = useStock(mariaDb, 'mysql');

  it('waits no longer than its call, and later statements wait as long as before', async () => {
    const { locks, host } = await startClsApp({
      redisUrl: redis.url,
      type: 'mysql',
      settings: mariaDb.settings,
      fence: {},
    });
    const limits: unknown[] = [];
    const sell = (): Promise<void> =>
      locks.withLock(stock.key, { waitMs: 500 }, () =>
        host.withTransaction(async () => {
          await stock.takeOne(host.tx);
          limits.push(
            ...(await host.tx.query<unknown[]>('SELECT @@innodb_lock_wait_timeout AS s')),
          );
        }),
      );
    await sell();
    const blocker = (await openDataSource('mysql', mariaDb.settings)).createQueryRunner();
    await blocker.startTransaction();
    await blocker.query('UPDATE lock_fence SET token = token WHERE lock_key = ?', [stock.key]);
    const startedAt = performance.now();
    await expect(sell()).rejects.toMatchObject({ code: 'LOCK_NOT_ACQUIRED', key: stock.key });
    expect(performance.now() - startedAt).toBeLessThan(8_000);
    await blocker.rollbackTransaction();
    await blocker.release();
    await sell();
    expect(await stock.quantity()).toBe(98);
    const [{ own } = {}] = await mariaDb.query<{ own?: unknown }>(
      'SELECT @@GLOBAL.innodb_lock_wait_timeout AS own',
    );
    expect(limits).toMatchObject([{ s: String(own) }, { s: String(own) }]);
  });

  it('is also understood as a prepared statement', async () => {
    const connection = await createConnection(mariaDb.url);
    const sql = 'SET STATEMENT innodb_lock_wait_timeout = LEAST(@@innodb_lock_wait_timeout, 1) FOR';
    const [rows] = await connection.execute(
      `${sql} INSERT INTO lock_fence VALUES (?, ?) RETURNING token`,
      [stock.key, 5],
    );
    await connection.end();
    expect(rows).toMatchObject([{ token: 5 }]);
  });
});
