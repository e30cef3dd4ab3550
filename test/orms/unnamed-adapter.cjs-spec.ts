/** An adapter without a connection name, in a process with no connection named 'default'. */
import { describe, expect, it } from '@jest/globals';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { startClsApp } from '../transactions/cls-app.js';
import { openDataSource } from '../transactions/data-source.js';
import { useStock } from '../transactions/stock.js';

describe('an adapter without a connection name', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  it('has the name of its data source: a fence for another name is refused', async () => {
    const dataSource = await openDataSource('postgres', postgres.settings);
    lockAwareDataSource(dataSource, { connectionName: 'named' });
    const { host, locks } = await startClsApp({
      redisUrl: redis.url,
      type: 'postgres',
      settings: postgres.settings,
      dataSource,
      fence: { connections: ['default'] },
    });
    const sale = locks.withLock(stock.key, () =>
      host.withTransaction(() => stock.takeOne(host.tx)),
    );
    await expect(sale).rejects.toMatchObject({
      code: 'LOCK_CONFIG_INVALID',
      message: expect.stringMatching(/'default'.*the lock-aware connections are 'named'/),
    });
    expect(await stock.quantity()).toBe(100);
  });
});
