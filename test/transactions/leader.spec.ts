/** The transactions of a leader, and a campaign that is begun inside one. */
import { describe, expect, it } from '@jest/globals';
import type { LockLostError } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

async function start() {
  const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
  const { locks } = await startLocks(redis.url, { fence: true });
  return { dataSource, locks };
}

describe('a transaction of a leader', () => {
  it('is written under its fencing token', async () => {
    const { dataSource, locks } = await start();
    let token = 0;
    const leadership = locks.lead(stock.key, async (_, lock) => {
      token = lock.fencingToken;
      await dataSource.transaction((manager) => stock.takeOne(manager));
    });
    await leadership.done;
    expect([await stock.quantity(), await stock.fence()]).toEqual([99, token]);
  });

  it('is not committed when the leader was deposed; its next one is', async () => {
    const { dataSource, locks } = await start();
    const reasons: unknown[] = [];
    let turns = 0;
    const leadership = locks.lead(stock.key, async (signal) => {
      turns += 1;
      await dataSource
        .transaction(async (manager) => {
          await stock.takeOne(manager);
          if (turns === 1) await locks.forceRelease(stock.key);
        })
        .catch((error: LockLostError) => {
          reasons.push(error.reason, signal.aborted);
          throw error;
        });
    });
    await leadership.done;
    expect(reasons).toEqual(['revoked', true]);
    expect([turns, await stock.quantity()]).toEqual([2, 99]);
  });

  it('does not carry a campaign: lead is refused inside', async () => {
    const { dataSource, locks } = await start();
    const begun = dataSource.transaction(async () => {
      await Promise.resolve();
      locks.lead(stock.key, async () => {});
    });
    await expect(begun).rejects.toMatchObject({
      code: 'LOCK_IN_TRANSACTION',
      message: expect.stringContaining(`Cannot campaign for '${stock.key}'`) as unknown,
    });
    expect(await locks.inspect(stock.key)).toBeNull();
  });
});
