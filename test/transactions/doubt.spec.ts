import { describe, expect, it } from '@jest/globals';
import { LockCommitUnknownError, LockInTransactionError, type LockService } from 'nestjs-locked';
import { unfenced } from 'nestjs-locked/transactions';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import pg from 'pg';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { openAdmin } from '../support/open-locks.js';
import { PostgresProxy } from '../support/postgres-proxy.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';
import { startLocks } from './locks.js';
import { transactionsOf } from './recipes/node-postgres.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

const LEASE = { leaseMs: 1_500, waitMs: 8_000 };

const takeOne = (tx: pg.PoolClient): Promise<unknown> =>
  tx.query('UPDATE stock SET quantity = quantity - 1 WHERE id = $1', [stock.product]);

const start = async (options: Parameters<typeof startLocks>[1] = {}) => {
  const proxy = await PostgresProxy.start(postgres.url);
  const pool = new pg.Pool({ connectionString: proxy.url });
  pool.on('error', () => {});
  afterTest(() => pool.end());
  const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
  const { locks } = await startLocks(redis.url, options);
  const sell = transactionsOf(pool);
  /** A sale whose COMMIT is not answered. */
  const sellInDoubt = async (): Promise<void> => {
    const sale = sell(async (tx) => {
      await takeOne(tx);
      proxy.breakAt('COMMIT');
    });
    await expect(sale).rejects.toBeInstanceOf(LockCommitUnknownError);
  };
  return { proxy, pool, run, locks, sell, sellInDoubt };
};

const leftOf = (key: string): Promise<number> => openAdmin(redis.url).pttl(`lock:{${key}}`);

describe('a COMMIT in doubt', () => {
  it('inside a transaction that is restarted forbids another run', async () => {
    const { locks, sell, sellInDoubt } = await start({ insideTransaction: 'restart', ...LEASE });
    let [runs, sales] = [0, 0];
    const around = sell(async () => {
      runs++;
      await locks.withLock(stock.key, () => {
        sales++;
        return sellInDoubt();
      });
      await locks.withLock(uniqueKey('another'), async () => {});
    });
    await expect(around).rejects.toBeInstanceOf(LockCommitUnknownError);
    expect([runs, sales]).toEqual([2, 1]);
    expect(await stock.quantity()).toBe(100);
  });

  it('inside a transaction that fails by itself leaves it with its own error', async () => {
    const { locks, sell, sellInDoubt } = await start(LEASE);
    const around = locks.withLock(stock.key, () =>
      sell(async () => {
        await sellInDoubt();
        throw new Error('the customer has no money');
      }),
    );
    await expect(around).rejects.toThrow('the customer has no money');
  });

  it('is not the answer of a serialization failure, after which the work may be repeated', async () => {
    await createUnluckyTable();
    const { locks, sell, sellInDoubt } = await start(LEASE);
    const attempts: string[] = [];
    const attempt = async (n: number): Promise<void> => {
      attempts.push(`${n}`);
      if (n === 2) return sellInDoubt();
      await sell(async (tx) => {
        attempts.push('works');
        await takeOne(tx);
        if (n === 1) await tx.query('INSERT INTO unlucky VALUES (1)');
      });
    };
    await locks.withLock(stock.key, async () => {
      await expect(attempt(1)).rejects.toMatchObject({ code: '40001' });
      await attempt(2);
      for (const n of [3, 4]) {
        await expect(attempt(n)).rejects.toThrow(/this one could repeat it/);
      }
    });
    expect(attempts).toEqual(['1', 'works', '2', '3', '4']);
    expect(await stock.quantity()).toBe(100);
  });

  it.each<['around it' | 'inside of it']>([['around it'], ['inside of it']])(
    'keeps the key for the holdAtLeastMs of a call %s, past the end of the lease',
    async (place) => {
      const { proxy, locks, sell } = await start({ insideTransaction: 'join', ...LEASE });
      const options = { holdAtLeastMs: 60_000 };
      const sold = async (tx: pg.PoolClient): Promise<void> => {
        await takeOne(tx);
        proxy.breakAt('COMMIT');
      };
      const sale =
        place === 'around it'
          ? locks.withLock(stock.key, options, () => sell(sold))
          : sell((tx) => locks.withLock(stock.key, options, () => sold(tx)));
      await expect(sale).rejects.toBeInstanceOf(LockCommitUnknownError);
      expect(await leftOf(stock.key)).toBeGreaterThan(30_000);
      const { locks: replica } = await startLocks(redis.url);
      await sleep(LEASE.leaseMs + 200);
      const tick = replica.withLock(stock.key, { waitMs: 0, onBusy: 'skip' }, () => 'ran again');
      expect(await tick).toBeUndefined();
    },
  );

  it('ends a driver that repeats its transaction by itself', async () => {
    const { proxy, pool, run, locks } = await start(LEASE);
    let runs = 0;
    const sale = locks.withLock(stock.key, () =>
      run(async (wrap) => {
        for (;;) {
          const client = await pool.connect();
          try {
            await client.query('BEGIN');
            await wrap(client, async (tx) => {
              runs++;
              await takeOne(tx);
            });
            if (runs === 1) proxy.breakAt('COMMIT');
            return await client.query('COMMIT');
          } catch (error) {
            if (error instanceof LockCommitUnknownError) throw error;
          } finally {
            client.release(true);
          }
        }
      }),
    );
    await expect(sale).rejects.toBeInstanceOf(LockCommitUnknownError);
    expect([runs, await stock.quantity()]).toEqual([1, 100]);
  });

  it('closes every key of a call, and each of them ends with its lease [G45]', async () => {
    const { locks, sell, sellInDoubt } = await start(LEASE);
    const [a, b] = [uniqueKey('a'), uniqueKey('b')].sort() as [string, string];
    await locks.withLock([a, b], async () => {
      await sellInDoubt();
      for (const key of [a, b]) {
        const again = locks.withLock(key, () => sell(takeOne));
        await expect(again).rejects.toBeInstanceOf(LockCommitUnknownError);
      }
    });
    expect([await leftOf(a), await leftOf(b)]).toEqual([expect.any(Number), expect.any(Number)]);
    expect(Math.min(await leftOf(a), await leftOf(b))).toBeGreaterThan(0);
    await locks.withLock([a, b], () => sell(takeOne));
    expect(await stock.quantity()).toBe(99);
  });

  it('keeps a caller of the same process waiting until the lease has ended [G45]', async () => {
    const { locks, sellInDoubt } = await start(LEASE);
    let entered = false;
    const tokens: (string | null)[] = [];
    const token = async (): Promise<number> =>
      tokens.push(await openAdmin(redis.url).get(`lock:{${stock.key}}`));
    let next: Promise<unknown> = Promise.resolve();
    await locks.withLock(stock.key, async () => {
      await token();
      next = locks.withLock(stock.key, { reentrant: false }, () => {
        entered = true;
        return token();
      });
      await sleep(50); // it is queued
      await sellInDoubt();
    });
    const leftMs = await leftOf(stock.key);
    const from = performance.now();
    expect([entered, leftMs > 0]).toEqual([false, true]);
    await next;
    expect(performance.now() - from).toBeGreaterThan(leftMs - 100);
    expect(tokens[1]).not.toBe(tokens[0]);
  });

  it('is not forgotten because a refusal was swallowed, nor without the fence', async () => {
    const { locks, sellInDoubt, sell } = await start({ fence: true, ...LEASE });
    await locks.withLock(stock.key, async () => {
      await sellInDoubt();
      const swallowed = await sell(takeOne).catch((error: unknown) => error);
      expect(swallowed).toBeInstanceOf(LockCommitUnknownError);
      await expect(sell(takeOne)).rejects.toBeInstanceOf(LockCommitUnknownError);
      await expect(unfenced(() => sell(takeOne))).rejects.toBeInstanceOf(LockCommitUnknownError);
    });
    expect([await stock.quantity(), await stock.fence()]).toEqual([100, NaN]);
  });
});

describe('a lock that is waited for inside a transaction, with the fence on', () => {
  const sellUnder = (locks: LockService, tx: pg.PoolClient): Promise<unknown> =>
    locks.withLock(stock.key, () => takeOne(tx));

  it('is claimed there, and an audit row is written beside it where it says so', async () => {
    const { locks, sell } = await start({ fence: true, insideTransaction: 'join' });
    const audit = (): Promise<unknown> =>
      sell((tx) => tx.query(`INSERT INTO lock_fence VALUES ('audit', 1)`));
    const sale = sell(async (tx) => {
      await locks.withLock(stock.key, async () => {
        await takeOne(tx);
        await expect(audit()).rejects.toBeInstanceOf(LockInTransactionError);
        await unfenced(audit);
      });
      throw new Error('no stock');
    });
    await expect(sale).rejects.toThrow('no stock');
    const rows = await postgres.query('SELECT lock_key FROM lock_fence');
    expect(rows).toEqual([{ lock_key: 'audit' }]);
    await sell((tx) => sellUnder(locks, tx));
    expect(await stock.quantity()).toBe(99);
    expect(await stock.fence()).toBeGreaterThan(0);
  });

  it('is not claimed in a transaction that goes without the fence, and is kept all the same', async () => {
    const { locks, sell } = await start({ fence: true, insideTransaction: 'join' });
    let held: boolean | undefined;
    await unfenced(() =>
      sell(async (tx) => {
        await sellUnder(locks, tx);
        held = (await leftOf(stock.key)) > 0;
      }),
    );
    expect([held, await stock.quantity(), await stock.fence()]).toEqual([true, 99, NaN]);
  });
});

/** A transaction that has written into it is refused with a serialization failure at its COMMIT. */
async function createUnluckyTable(): Promise<void> {
  await postgres.query('CREATE TABLE unlucky (id int)');
  await postgres.query(
    `CREATE FUNCTION unlucky() RETURNS trigger LANGUAGE plpgsql AS
     $$ BEGIN RAISE EXCEPTION 'unlucky' USING ERRCODE = '40001'; END $$`,
  );
  await postgres.query(
    `CREATE CONSTRAINT TRIGGER unlucky AFTER INSERT ON unlucky DEFERRABLE INITIALLY DEFERRED
     FOR EACH ROW EXECUTE FUNCTION unlucky()`,
  );
}
