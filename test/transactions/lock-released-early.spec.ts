/** `lock.release()` is awaited by the work under the lock, while a transaction keeps the hold. */
import { describe, expect, it } from '@jest/globals';
import type { Lock } from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import pg from 'pg';
import type { DataSource, EntitySubscriberInterface } from 'typeorm';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

type Release = () => Promise<unknown>;

const failure = new Error('sold out');

async function byHand(
  dataSource: DataSource,
  beforeEnd: () => unknown = () => {},
  isCommitted = true,
): Promise<void> {
  const runner = dataSource.createQueryRunner();
  await runner.startTransaction();
  await stock.takeOne(runner.manager);
  await beforeEnd();
  await (isCommitted ? runner.commitTransaction() : runner.rollbackTransaction());
  await runner.release();
}

const failing = (dataSource: DataSource): Promise<unknown> =>
  dataSource.transaction(() => Promise.reject(failure)).catch(() => {});

const selling = (dataSource: DataSource): Promise<unknown> =>
  dataSource.transaction((manager) => stock.takeOne(manager));

/** A client of a pool that is used as the recipe says. */
async function recipe(release: Release): Promise<void> {
  const pool = new pg.Pool({ connectionString: postgres.url });
  afterTest(() => pool.end());
  await lockAwareTransactions({ dialect: 'postgres', pool })(async (wrap) => {
    const client = await pool.connect();
    await client.query('BEGIN');
    const sell = `UPDATE stock SET quantity = quantity - 1 WHERE id = '${stock.product}'`;
    await wrap(client, () => client.query(sell));
    await release();
    await client.query('COMMIT');
    client.release();
  });
}

interface Way {
  readonly hook?: keyof EntitySubscriberInterface;
  readonly run: (dataSource: DataSource, release: Release) => Promise<unknown>;
  /** How many are left. */
  readonly left: number;
}

const ways: Record<string, Way> = {
  'by hand, before the COMMIT': {
    run: (dataSource, release) => byHand(dataSource, release),
    left: 99,
  },
  'by hand, in the hook before COMMIT': {
    hook: 'beforeTransactionCommit',
    run: (dataSource) => byHand(dataSource),
    left: 99,
  },
  'by hand, in the hook after COMMIT': {
    hook: 'afterTransactionCommit',
    run: (dataSource) => byHand(dataSource),
    left: 99,
  },
  'by hand, in the hook before ROLLBACK': {
    hook: 'beforeTransactionRollback',
    run: (dataSource) => byHand(dataSource, undefined, false),
    left: 100,
  },
  'by hand, in the hook after ROLLBACK': {
    hook: 'afterTransactionRollback',
    run: (dataSource) => byHand(dataSource, undefined, false),
    left: 100,
  },
  'in the hook before COMMIT': { hook: 'beforeTransactionCommit', run: selling, left: 99 },
  'in the hook after COMMIT': { hook: 'afterTransactionCommit', run: selling, left: 99 },
  'in the hook before ROLLBACK': { hook: 'beforeTransactionRollback', run: failing, left: 100 },
  'between the body and the COMMIT of a recipe': { run: (_, release) => recipe(release), left: 99 },
};

describe('a lock that its own work releases too early', () => {
  it.each(Object.keys(ways))(
    'is kept until the transaction has ended, and nothing waits: %s',
    async (name) => {
      const { hook, run, left } = ways[name] as Way;
      const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
      const { locks } = await startLocks(redis.url);
      const answers: unknown[] = [];
      let release: Release = () => Promise.reject(new Error('no lock'));
      if (hook !== undefined) dataSource.subscribers.push({ [hook]: () => release() });
      await locks.withLock(stock.key, async (lock: Lock) => {
        release = async () => {
          answers.push(
            await lock.release(),
            await lock.release(),
            await isHeld(redis.url, stock.key),
          );
        };
        await run(dataSource, release);
      });
      expect(answers).toEqual([true, true, true]);
      expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([left, false]);
    },
  );

  it('is free when the release is answered, if the transaction has ended before', async () => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
    const { locks } = await startLocks(redis.url);
    await locks.withLock(stock.key, async (lock) => {
      await selling(dataSource);
      expect(await lock.release()).toBe(true);
      expect(await isHeld(redis.url, stock.key)).toBe(false);
    });
  });
});
