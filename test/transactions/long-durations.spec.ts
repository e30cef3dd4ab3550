import { describe, expect, it } from '@jest/globals';
import type { LockOptions, TransactionTimeouts } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

/** More than PostgreSQL takes as a time-out. */
const LONG_MS = 3_000_000_000;

const CASES: [string, LockOptions, TransactionTimeouts | false][] = [
  ['leaseMs', { leaseMs: LONG_MS, maxHoldMs: Infinity }, {}],
  ['maxHoldMs', { maxHoldMs: LONG_MS }, {}],
  ['idleMs', {}, { idleMs: LONG_MS }],
  ['statementMs', {}, { statementMs: LONG_MS }],
  ['lockMs', {}, { lockMs: LONG_MS }],
  ['totalMs', {}, { totalMs: LONG_MS }],
  ['waitMs without a limit of ours', { waitMs: LONG_MS }, false],
  ['waitMs without a limit for locks', { waitMs: LONG_MS }, { lockMs: 0 }],
];

describe('a duration that is longer than a time-out of PostgreSQL can be', () => {
  it.each(CASES)('is taken, also by the later transactions: %s', async (_, options, timeouts) => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url, { fence: true, transactionTimeouts: timeouts });
    const sell = (): Promise<void> =>
      locks.withLock(stock.key, options, () =>
        dataSource.transaction((manager) => stock.takeOne(manager)),
      );
    await sell();
    await sell(); // knows the limits of the session
    expect(await stock.quantity()).toBe(98);
  });

  it('is taken by the gate, where a rollback has undone what was armed', async () => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url, {
      insideTransaction: 'join',
      transactionTimeouts: { idleMs: LONG_MS },
    });
    await dataSource.transaction(async (manager) => {
      const nested = manager.transaction(async (inner) => {
        await locks.withLock(stock.key, () => inner.query('SELECT 1'));
        throw new Error('undone');
      });
      await expect(nested).rejects.toThrow('undone');
      await stock.takeOne(manager);
    });
    expect(await stock.quantity()).toBe(99);
  });
});
