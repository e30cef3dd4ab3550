import { beforeAll, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { LockCommitUnknownError, type LockOptions } from 'nestjs-locked';
import pg from 'pg';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { eventually } from '../support/eventually.js';
import { openAdmin } from '../support/open-locks.js';
import { useRedis } from '../support/shared-redis.js';
import { type StartedLocks, startLocks } from './locks.js';
import { transactionsOf } from './recipes/node-postgres.js';
import { createSlowCommitTable, killCommits } from './slow-commit.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);
beforeAll(() => createSlowCommitTable(postgres));

const leftOf = (key: string): Promise<number> => openAdmin(redis.url).pttl(`lock:{${key}}`);

/** A third of the lease is less than the COMMIT takes, and the whole lease is more. */
const LEASE = { leaseMs: 4_500, waitMs: 10_000, transactionTimeouts: false } as const;

const isCommitting = (): Promise<void> =>
  eventually(async () => {
    const busy = await postgres.query(
      `SELECT 1 FROM pg_stat_activity WHERE upper(query) LIKE 'COMMIT%' AND state = 'active'
       AND datname = current_database()`,
    );
    expect(busy).toHaveLength(1);
  });

const start = async (shutdownMs = 10_000) => {
  const pool = new pg.Pool({ connectionString: postgres.url });
  pool.on('error', () => {});
  afterTest(() => pool.end());
  const sell = transactionsOf(pool);
  const mine = await startLocks(redis.url, { ...LEASE, shutdownMs });
  const others = await startLocks(redis.url, LEASE);
  /** With a COMMIT of two seconds. */
  const sellSlowly = (options: LockOptions = {}) => {
    let signal: AbortSignal | undefined;
    const sale = mine.locks.withLock(stock.key, options, (lock) => {
      signal = lock.signal;
      return sell(async (tx) => {
        await takeOne(tx);
        await tx.query('INSERT INTO slow VALUES (1)');
      });
    });
    sale.catch(() => {});
    return { sale, isLost: () => signal?.aborted };
  };
  const sellElsewhere = (): Promise<number> =>
    others.locks.withLock(stock.key, () => sell((tx) => takeOne(tx)));
  return { mine, sellSlowly, sellElsewhere };
};

/** Reads and writes: without the lock, two at a time lose an update. @returns what was there */
const takeOne = async (tx: pg.PoolClient): Promise<number> => {
  const { rows } = await tx.query<{ quantity: number }>(
    'SELECT quantity FROM stock WHERE id = $1',
    [stock.product],
  );
  const quantity = rows[0]?.quantity as number;
  await tx.query('UPDATE stock SET quantity = $1 WHERE id = $2', [quantity - 1, stock.product]);
  return quantity;
};

describe('a COMMIT under a lock that is lost meanwhile', () => {
  const losses: [string, LockOptions, (mine: StartedLocks) => unknown][] = [
    ['because the application closes', {}, ({ app }) => app.close()],
    ['because its maxHoldMs is over', { maxHoldMs: 1_000 }, () => undefined],
  ];

  it.each(losses)(
    '%s may continue as long as the lease lasts in Redis',
    async (_, options, lose) => {
      const { mine, sellSlowly, sellElsewhere } = await start(300);
      const { sale, isLost } = sellSlowly(options);
      await isCommitting();
      const next = sellElsewhere();
      await lose(mine);
      await eventually(() => expect(isLost()).toBe(true));
      expect(await leftOf(stock.key)).toBeGreaterThan(0);
      await isCommitting(); // still
      await sale;
      expect(await next).toBe(99);
      expect(await stock.quantity()).toBe(98);
    },
  );

  it('and is then in doubt is logged with the time that the lease lasts in Redis', async () => {
    const logged = jest.spyOn(Logger.prototype, 'error').mockImplementation(() => {});
    afterTest(() => logged.mockRestore());
    const { mine, sellSlowly } = await start(300);
    const { sale, isLost } = sellSlowly();
    await isCommitting();
    await mine.app.close();
    expect(isLost()).toBe(true);
    const leftMs = await leftOf(stock.key);
    await killCommits(postgres);
    await expect(sale).rejects.toBeInstanceOf(LockCommitUnknownError);
    const stillMs = await leftOf(stock.key);
    const messages = logged.mock.calls.map(([message]) => String(message));
    const told = messages.flatMap((text) => /on its own within (\d+) ms/.exec(text)?.[1] ?? []);
    expect(told).toHaveLength(1);
    expect(stillMs).toBeGreaterThan(0);
    expect(Number(told[0])).toBeLessThanOrEqual(leftMs + 50);
    expect(Number(told[0])).toBeGreaterThanOrEqual(stillMs - 200); // but for what clocks may drift
  });
});
