import { expect, it } from '@jest/globals';
import { findMariaDbPrograms, MariaDbServer } from 'dev-servers';
import { createConnection } from 'mysql2/promise';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { afterTest } from '../support/after-test.js';
import { describeIf } from '../support/describe-if.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { byHand, withCallback } from './opened-transaction.js';

const redis = useRedis();

/** Not with a server that others use: this one becomes read-only. */
const describeWithOwnMariaDb = describeIf(findMariaDbPrograms() !== undefined, 'no MariaDB');

/** A server of its own, for the duration of the test, and a user who may not write when it is read-only. */
async function startServer() {
  const server = await MariaDbServer.start();
  afterTest(() => server.stop());
  const admin = await createConnection(server.url);
  afterTest(() => admin.end());
  for (const sql of [
    'CREATE DATABASE shop',
    'CREATE TABLE shop.sales (id int PRIMARY KEY)',
    "CREATE USER seller@'%' IDENTIFIED BY 'secret'",
    "GRANT ALL ON shop.* TO seller@'%'",
  ]) {
    await admin.query(sql);
  }
  const user = { user: 'seller', password: 'secret', database: 'shop' };
  return { admin, settings: { host: '127.0.0.1', port: server.port, ...user } };
}

describeWithOwnMariaDb('a server that becomes read-only before the COMMIT', () => {
  it.each([
    ['with a callback', withCallback],
    ['by hand', byHand()],
  ])(
    'has rolled back, so that nothing is in doubt: %s',
    async (_, open) => {
      const { admin, settings } = await startServer();
      const dataSource = lockAwareDataSource(await openDataSource('mysql', settings, 1));
      const { locks } = await startLocks(redis.url);
      const sale = locks.withLock('sales', () =>
        open(dataSource, async (runner) => {
          await runner.query('INSERT INTO sales VALUES (1)');
          await admin.query('SET GLOBAL read_only = 1');
        }),
      );
      await expect(sale).rejects.toHaveProperty('driverError.errno', 1290);
      expect(await isHeld(redis.url, 'sales')).toBe(false);
      await admin.query('SET GLOBAL read_only = 0');
      await dataSource.transaction((manager) => manager.query('SELECT 1')); // commits what was left open
      expect(await dataSource.query('SELECT id FROM sales')).toEqual([]);
    },
    90_000,
  );
});
