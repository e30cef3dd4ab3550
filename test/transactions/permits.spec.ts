/** Transactions under permits: they claim nothing, and are committed only while the permit is held. */
import { describe, expect, it } from '@jest/globals';
import { LockLostError } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { usePostgres } from '../support/databases.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';
import { openDataSource } from './data-source.js';
import { startLocks } from './locks.js';
import { useStock } from './stock.js';

const PERMITS = { permits: 2 } as const;

describe('transactions under permits', () => {
  const redis = useRedis();
  const database = usePostgres();
  const stock = useStock(database, 'postgres');

  const start = async () => {
    const source = lockAwareDataSource(await openDataSource('postgres', database.settings, 4));
    const { locks } = await startLocks(redis.url, { fence: true, transactionTimeouts: false });
    const sell = (manager: { query(sql: string, params: unknown[]): Promise<unknown> }) =>
      manager.query('UPDATE stock SET quantity = quantity - 1 WHERE id = $1', [stock.product]);
    return { source, locks, sell };
  };

  it('run side by side and claim nothing', async () => {
    const { source, locks, sell } = await start();
    const key = uniqueKey();
    const [first, second] = [makeGate(), makeGate()];
    const inside = (mine: ReturnType<typeof makeGate>, other: ReturnType<typeof makeGate>) =>
      locks.withLock(key, PERMITS, () =>
        source.transaction(async (manager) => {
          await manager.query('SELECT 1');
          mine.open();
          await other.opened;
          await sell(manager);
        }),
      );
    await Promise.all([inside(first, second), inside(second, first)]);
    const rows: unknown = await source.query(
      'SELECT token FROM lock_fence WHERE lock_key LIKE $1',
      [`%${key}%`],
    );
    expect(rows).toEqual([]);
  });

  it('are rolled back if the permit was lost before the COMMIT', async () => {
    const { source, locks, sell } = await start();
    const key = uniqueKey();
    const before: unknown = await source.query('SELECT quantity FROM stock WHERE id = $1', [
      stock.product,
    ]);
    const selling = locks.withLock(key, PERMITS, (lock) =>
      source.transaction(async (manager) => {
        await sell(manager);
        const lost = new Promise((aborted) => lock.signal.addEventListener('abort', aborted));
        await locks.forceRelease(key);
        await lost;
      }),
    );
    await expect(selling).rejects.toThrow(LockLostError);
    const after: unknown = await source.query('SELECT quantity FROM stock WHERE id = $1', [
      stock.product,
    ]);
    expect(after).toEqual(before);
  });
});
