import { expect, it } from '@jest/globals';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { DataSource, type Logger } from 'typeorm';
import { afterTest } from '../support/after-test.js';
import { useMariaDb } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { useRedis } from '../support/shared-redis.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { isHeld, startLocks } from './locks.js';
import { useStock } from './stock.js';

/** TypeORM's time-out for queries is the only one that its pool of mysql2 has. */
const QUERY_TIMEOUT_MS = 400;

/** It would print every statement that takes too long. */
const SILENT: Logger = {
  logQuery: () => {},
  logQueryError: () => {},
  logQuerySlow: () => {},
  logSchemaBuild: () => {},
  logMigration: () => {},
  log: () => {},
};

describeWithMariaDb('a connection to MariaDB whose ROLLBACK was not answered', () => {
  const redis = useRedis();
  const mariaDb = useMariaDb();
  const stock = useStock(mariaDb, 'mysql');

  const start = async () => {
    const { host, port, user, password, database } = mariaDb.settings;
    const proxy = await TcpProxy.start(port);
    const dataSource = await new DataSource({
      type: 'mysql',
      ...{ host, username: user, password, database },
      port: Number(new URL(proxy.url).port),
      poolSize: 1,
      maxQueryExecutionTime: QUERY_TIMEOUT_MS,
      enableQueryTimeout: true,
      logger: SILENT,
    }).initialize();
    afterTest(() => dataSource.destroy());
    const { locks } = await startLocks(redis.url);
    return { proxy, dataSource: lockAwareDataSource(dataSource), locks };
  };
  const connectionOf = async (manager: { query(sql: string): Promise<unknown> }) => {
    const [{ id }] = (await manager.query('SELECT connection_id() AS id')) as [{ id: unknown }];
    return String(id);
  };

  it.each(['under a lock', 'without one'])(
    'never returns to the pool: the next transaction gets another one (%s)',
    async (where) => {
      const { proxy, dataSource, locks } = await start();
      let failed = '';
      let silent: Promise<void> | undefined;
      const sell = (): Promise<void> =>
        dataSource.transaction(async (manager) => {
          failed = await connectionOf(manager);
          await stock.takeOne(manager);
          silent = proxy.silenceAt('rollback');
          throw new Error('no stock');
        });
      const sale = where === 'under a lock' ? locks.withLock(stock.key, sell) : sell();
      const from = performance.now();
      await expect(sale).rejects.toThrow(/no stock|inactivity timeout/);
      await silent;
      expect(performance.now() - from).toBeLessThan(4_000);
      expect(await isHeld(redis.url, stock.key)).toBe(false);
      const next = await dataSource.transaction(connectionOf);
      expect(Number(next)).toBeGreaterThan(Number(failed));
      expect(await stock.quantity()).toBe(100);
    },
  );
});
