import { describe, expect, it } from '@jest/globals';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { DataSource } from 'typeorm';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { type TestDatabase, useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { startLocks } from './locks.js';
import { useStock } from './stock.js';

const CALLERS = 20;
const POOL_SIZE = 5;
const PROBE_EVERY_MS = 20;
/** A pool that is eaten up keeps everybody waiting until somebody gives up. */
const WAIT_MS = 60_000;
const WORST_WAIT_MS = 20_000;

/** Asks the pool for a connection again and again. @returns ends it, and tells the longest wait for an answer */
function probe(dataSource: DataSource): () => Promise<number> {
  const waits: Promise<number>[] = [];
  const timer = setInterval(() => {
    const askedAt = performance.now();
    waits.push(dataSource.query('SELECT 1').then(() => performance.now() - askedAt));
  }, PROBE_EVERY_MS);
  afterTest(() => clearInterval(timer)); // also if it failed
  return async () => {
    clearInterval(timer);
    return Math.max(...(await Promise.all(waits)));
  };
}

/** Callers that open a transaction first, then ask for the lock, and need a second connection under it. */
function wrongNesting(type: 'postgres' | 'mysql', useDatabase: () => TestDatabase): void {
  const redis = useRedis();
  const database = useDatabase();
  const stock = useStock(database, type);

  it.each([
    ['READ COMMITTED', {}],
    ['REPEATABLE READ', {}],
    ['READ COMMITTED', { fence: {} }],
    ['REPEATABLE READ', { fence: {} }],
  ] as const)('at %s, %j: all succeed, and the pool stays usable', async (isolation, options) => {
    const dataSource = lockAwareDataSource(
      await openDataSource(type, database.settings, POOL_SIZE),
    );
    const { locks } = await startLocks(redis.url, {
      ...{ insideTransaction: 'restart', waitMs: WAIT_MS },
      ...options,
    });
    const endProbe = probe(dataSource);
    const sales = Array.from({ length: CALLERS }, () =>
      dataSource.transaction(isolation, async (manager) => {
        await manager.query('SELECT count(*) FROM stock');
        await locks.withLock(stock.key, async () => {
          await stock.takeOne(manager);
          await dataSource.query('SELECT 1');
          await sleep(20);
        });
      }),
    );
    await Promise.all(sales);
    const worstMs = await endProbe();
    expect(await stock.quantity()).toBe(100 - CALLERS);
    expect(worstMs).toBeLessThan(WORST_WAIT_MS);
  });
}

describe('a lock requested inside a transaction, under restart, on PostgreSQL', () =>
  wrongNesting('postgres', usePostgres));

describeWithMariaDb('a lock requested inside a transaction, under restart, on MariaDB', () =>
  wrongNesting('mysql', useMariaDb),
);
