import { describe, expect, it } from '@jest/globals';
import { Kysely, PostgresDialect, sql } from 'kysely';
import { LockInTransactionError, LockLostError, type LockService } from 'nestjs-locked';
import { lockAwareTransactions, type WrapBody } from 'nestjs-locked/transactions';
import pg from 'pg';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { isHeld, startLocks } from './locks.js';
import { transactionsOf } from './recipes/node-postgres.js';
import { useStock } from './stock.js';

type RunTransaction = ReturnType<typeof lockAwareTransactions<pg.PoolClient>>;

interface Opened {
  readonly pool: pg.Pool;
  readonly run: RunTransaction;
  readonly locks: LockService;
}

type Runs = Pick<pg.ClientBase, 'query'>;

/** As a database reports that a transaction has to be run again. */
const conflict = (): Error => Object.assign(new Error('conflict'), { code: '40001' });

describe('the client of a transaction on node-postgres', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  const takeOne = (runs: Runs): Promise<unknown> =>
    runs.query('UPDATE stock SET quantity = quantity - 1 WHERE id = $1', [stock.product]);

  const openPool = (): pg.Pool => {
    const pool = new pg.Pool({ connectionString: postgres.url, max: 3 });
    pool.on('error', () => {});
    afterTest(() => pool.end());
    return pool;
  };

  const open = async (): Promise<Opened> => {
    const pool = openPool();
    const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
    const { locks } = await startLocks(redis.url, { fence: true });
    return { pool, run, locks };
  };

  /** Another transaction, of code that knows of no lock. Each step waits to be let on. */
  const lockFree = (pool: pg.Pool, ending: 'COMMIT' | 'ROLLBACK' = 'COMMIT') => {
    const [connect, begin, end] = [makeGate(), makeGate(), makeGate()];
    const [connected, begun] = [makeGate(), makeGate()];
    const work = async (): Promise<pg.PoolClient> => {
      await connect.opened;
      const client = await pool.connect();
      connected.open();
      await begin.opened;
      await client.query('BEGIN');
      begun.open();
      await end.opened;
      try {
        await client.query('INSERT INTO stock VALUES ($1, 1)', [`${stock.product} of the other`]);
        await client.query(ending);
      } finally {
        client.release();
      }
      return client;
    };
    const done = work();
    done.catch(() => {});
    return {
      connects: async () => (connect.open(), connected.opened),
      begins: async () => (begin.open(), begun.opened),
      ends: async () => (end.open(), done),
    };
  };

  const othersRows = (): Promise<unknown[]> =>
    postgres.query('SELECT 1 FROM stock WHERE id = $1', [`${stock.product} of the other`]);

  /** @param begins when the other user begins on the client that was used for reading @param commits when it commits */
  const readFirst = async (begins: 'at once' | 'before the body', commits: 'before' | 'in') => {
    const { pool, locks } = await open();
    const database = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) });
    const run = lockAwareTransactions<object>({ pool });
    const other = lockFree(pool);
    await locks.withLock(stock.key, () =>
      run(async (wrap) => {
        await sql`SELECT 1`.execute(database);
        await other.connects();
        if (begins === 'at once') await other.begins();
        if (begins === 'at once' && commits === 'before') await other.ends();
        return database.transaction().execute(async (tx) => {
          await other.begins();
          if (commits === 'before') await other.ends();
          await wrap(tx, async () => {
            await sql`UPDATE stock SET quantity = 99 WHERE id = ${stock.product}`.execute(tx);
            await other.ends();
          });
        });
      }),
    );
    const client = await other.ends();
    expect([await stock.quantity(), await othersRows()]).toMatchObject([99, [{}]]);
    expect(await isHeld(redis.url, stock.key)).toBe(false);
    expect(Object.hasOwn(client, 'query')).toBe(false);
  };

  it.each([
    ['at once', 'in'],
    ['at once', 'before'],
    ['before the body', 'in'],
    ['before the body', 'before'],
  ] as const)(
    'is not the one that it has read with before, which another user has: begun %s, committed %s the body',
    readFirst,
  );

  it('is not one that was given back: the BEGIN of its next user is sent', async () => {
    const { pool, run, locks } = await open();
    const other = lockFree(pool, 'ROLLBACK');
    await locks.withLock(stock.key, () =>
      run(async (wrap) => {
        const reader = await pool.connect();
        const client = await pool.connect();
        reader.release(); // not needed after all
        await other.connects();
        await client.query('BEGIN');
        await wrap(client, async (tx) => {
          await other.begins();
          await takeOne(tx);
        });
        await client.query('COMMIT').finally(() => client.release());
      }),
    );
    await other.ends();
    expect([await stock.quantity(), await othersRows()]).toEqual([99, []]);
  });

  /** Runs its transaction again where the database asks for that. @param commits called before the COMMIT */
  const repeating =
    ({ pool, run }: Opened, commits: () => Promise<void> = async () => {}) =>
    (work: (client: pg.PoolClient, attempt: number) => Promise<unknown>): Promise<unknown> => {
      const once = async (
        wrap: WrapBody<pg.PoolClient, unknown>,
        attempt: number,
      ): Promise<unknown> => {
        const client = await pool.connect();
        try {
          await client.query('BEGIN');
          const result = await wrap(client, (tx) => work(tx, attempt));
          await commits();
          await client.query('COMMIT');
          return result;
        } catch (error) {
          await client.query('ROLLBACK');
          throw error;
        } finally {
          client.release();
        }
      };
      return run((wrap) =>
        once(wrap, 0).catch((error: unknown) => {
          if ((error as { code?: unknown }).code !== '40001') throw error;
          return once(wrap, 1);
        }),
      );
    };

  it('may be another one when the transaction is repeated by the code that opens it', async () => {
    const opened = await open();
    const { locks } = opened;
    const sale = repeating(opened);
    const done = locks.withLock(stock.key, () =>
      sale(async (tx, attempt) => {
        await takeOne(tx);
        if (attempt === 0) throw conflict();
        return 'sold';
      }),
    );
    await expect(done).resolves.toBe('sold');
    expect(await stock.quantity()).toBe(99);
    expect(await isHeld(redis.url, stock.key)).toBe(false);
  });

  it('sends no COMMIT of a repeated transaction without the lock', async () => {
    const opened = await open();
    const { locks } = opened;
    await locks
      .withLock(stock.key, async (lock) => {
        const sale = repeating(opened, async () => {
          await locks.forceRelease(stock.key);
          await eventually(async () => expect(lock.isHeld).toBe(false));
        });
        const done = sale(async (tx, attempt) => {
          await takeOne(tx);
          if (attempt === 0) throw conflict();
        });
        await expect(done).rejects.toBeInstanceOf(LockLostError);
      })
      .catch((error: unknown) => expect(error).toBeInstanceOf(LockLostError));
    expect(await stock.quantity()).toBe(100);
  });

  it.each([['COMMIT'], ['COMMIT; SELECT 1'], ['SELECT 1; COMMIT; SELECT 2']])(
    'is asked what became of the COMMIT in %s',
    async (commit) => {
      const { pool, run, locks } = await open();
      const sale = locks.withLock(stock.key, () =>
        run(async (wrap) => {
          const client = await pool.connect();
          try {
            await client.query('BEGIN');
            await wrap(client, takeOne);
            const failing = client.query('SELECT 1 / 0').catch(() => {}); // is not awaited
            Object.assign(client, { getTransactionStatus: () => null }); // or it would be refused
            await client.query(commit);
            await failing;
          } finally {
            client.release(true);
          }
        }),
      );
      if (commit.startsWith('SELECT')) await expect(sale).rejects.toMatchObject({ code: '25P02' });
      else await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      expect(await stock.quantity()).toBe(100);
    },
  );

  it('may send a COMMIT among other statements', async () => {
    const { pool, run, locks } = await open();
    await locks.withLock(stock.key, () =>
      run(async (wrap) => {
        const client = await pool.connect();
        await client.query('BEGIN');
        await client.query('SAVEPOINT a');
        await wrap(client, takeOne);
        await client.query('SELECT 1; COMMIT; SELECT 2').finally(() => client.release());
      }),
    );
    expect(await stock.quantity()).toBe(99);
  });

  it.each([
    [['COMMIT', 'BEGIN'], 98],
    [['COMMIT; BEGIN'], 98],
    [['COMMIT AND CHAIN'], 98],
    [['ROLLBACK', 'BEGIN'], 99],
    [['ROLLBACK AND CHAIN'], 99],
  ])('continues if the body, without a lock so far, sends %j', async (between, left) => {
    const { pool, locks } = await open();
    const sell = transactionsOf(pool);
    const done = sell(async (tx) => {
      await takeOne(tx);
      for (const statement of between) await tx.query(statement);
      await locks.withLock(stock.key, { insideTransaction: 'join' }, () => takeOne(tx));
      return 'sold';
    });
    await expect(done).resolves.toBe('sold');
    expect(await stock.quantity()).toBe(left);
    expect(await isHeld(redis.url, stock.key)).toBe(false);
  });

  it('belongs to its next user if it was rolled back and given back while the body continues', async () => {
    const { pool, run, locks } = await open();
    const other = lockFree(pool);
    const over = makeGate();
    const sale = locks.withLock(stock.key, () =>
      run(async (wrap) => {
        const client = await pool.connect();
        await client.query('BEGIN');
        const body = wrap(client, async (tx) => {
          await takeOne(tx);
          over.open();
          await other.ends();
        });
        await over.opened;
        await client.query('ROLLBACK'); // as after a time-out of the driver
        client.release();
        await other.connects();
        await other.begins();
        await other.ends();
        await body;
      }),
    );
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    expect([await stock.quantity(), await othersRows()]).toMatchObject([100, [{}]]);
  });
});
