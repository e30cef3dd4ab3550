import { describe, expect, it } from '@jest/globals';
import { LockCommitUnknownError, LockLostError } from 'nestjs-locked';
import { unfenced } from 'nestjs-locked/transactions';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import pg from 'pg';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { PostgresProxy } from '../support/postgres-proxy.js';
import { useRedis } from '../support/shared-redis.js';
import { standStill } from '../support/stand-still.js';
import { beforeCommit } from './before-commit.js';
import { openDataSource } from './data-source.js';
import { startLocks } from './locks.js';
import { transactionsOf } from './recipes/node-postgres.js';
import { useStock } from './stock.js';

type Send = (client: pg.PoolClient, text: string) => Promise<unknown>;

const plainly: Send = (client, text) => client.query(text);

/** All the ways in which node-postgres takes a statement with a callback, and answers nothing itself. */
const WAYS: [string, Send][] = [
  ['as a text with a callback', (client, text) => answered((done) => client.query(text, done))],
  [
    'as a config with its callback inside',
    (client, text) =>
      answered((callback) => {
        const config = { text, callback };
        void client.query(config);
      }),
  ],
  [
    'as a query of its own',
    (client, text) => answered((done) => client.query(new OwnQuery(text, done))),
  ],
];

type Done = (error: Error | null, result?: unknown) => void;

const OwnQuery = pg.Query as unknown as new (text: string, done: Done) => pg.Submittable;

function answered(send: (done: Done) => void): Promise<unknown> {
  return new Promise((resolve, reject) => {
    send((error, result) => (error ? reject(error) : resolve(result)));
  });
}

describe('the clients of a pool of node-postgres', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  const takeOne = (tx: pg.PoolClient): Promise<unknown> =>
    tx.query('UPDATE stock SET quantity = quantity - 1 WHERE id = $1', [stock.product]);

  const open = async () => {
    const proxy = await PostgresProxy.start(postgres.url);
    const pool = new pg.Pool({ connectionString: proxy.url });
    pool.on('error', () => {});
    afterTest(() => pool.end());
    const sell = transactionsOf(pool);
    const { locks } = await startLocks(redis.url, { fence: {} });
    return { proxy, pool, locks, sell };
  };

  describe.each(WAYS)('take a statement %s', (_, send) => {
    it('for the BEGIN and the COMMIT', async () => {
      const { pool, locks } = await open();
      const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
      await locks.withLock(stock.key, () =>
        run(async (wrap) => {
          const client = await pool.connect();
          await send(client, 'BEGIN');
          await wrap(client, (tx) => takeOne(tx));
          const answer = await send(client, 'COMMIT').finally(() => client.release());
          expect(answer).toMatchObject({ command: 'COMMIT' });
        }),
      );
      expect(await stock.quantity()).toBe(99);
    });

    it('and a COMMIT in doubt is not taken for a rollback', async () => {
      const { proxy, pool, locks, sell } = await open();
      const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
      const once = (): Promise<unknown> =>
        run(async (wrap) => {
          const client = await pool.connect();
          try {
            await client.query('BEGIN');
            await wrap(client, (tx) => takeOne(tx));
            proxy.breakAt('COMMIT');
            await send(client, 'COMMIT');
          } finally {
            client.release(true);
          }
        });
      await locks.withLock(stock.key, async () => {
        await expect(once()).rejects.toBeInstanceOf(LockCommitUnknownError);
        const again = sell((tx) => takeOne(tx));
        await expect(again).rejects.toBeInstanceOf(LockCommitUnknownError);
      });
      expect(await stock.quantity()).toBe(100);
    });

    it('and a COMMIT that the database refuses has not been done', async () => {
      const { pool, locks, sell } = await open();
      await postgres.query(
        'CREATE TABLE IF NOT EXISTS twice (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)',
      );
      const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
      const refused = (): Promise<unknown> =>
        run(async (wrap) => {
          const client = await pool.connect();
          try {
            await client.query('BEGIN');
            await wrap(client, (tx) => tx.query('INSERT INTO twice VALUES (1), (1)'));
            await send(client, 'COMMIT');
          } finally {
            client.release();
          }
        });
      await locks.withLock(stock.key, async () => {
        await expect(refused()).rejects.toMatchObject({ code: '23505' });
        await sell((tx) => takeOne(tx));
      });
      expect(await stock.quantity()).toBe(99);
    });
  });

  /** Another client is connected before that of the transaction. */
  const beside = async (commit: Send) => {
    const opened = await open();
    const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool: opened.pool });
    const sale = (): Promise<unknown> =>
      run(async (wrap) => {
        const reader = await opened.pool.connect();
        const client = await opened.pool.connect();
        try {
          await client.query('BEGIN');
          await wrap(client, async (tx) => {
            await reader.query('BEGIN');
            await reader.query('COMMIT'); // its own
            await takeOne(tx);
          });
          return await commit(client, 'COMMIT');
        } finally {
          reader.release();
          client.release(true);
        }
      });
    return { ...opened, sale };
  };

  it('are watched if they are those of the transaction, whichever was connected first', async () => {
    const { locks, sale } = await beside(plainly);
    await locks.withLock(stock.key, sale);
    expect(await stock.quantity()).toBe(99);
  });

  it('leave a commit in doubt, whichever was connected first', async () => {
    const { proxy, locks, sale, sell } = await beside((client, text) => {
      proxy.breakAt(text);
      return client.query(text);
    });
    await locks.withLock(stock.key, async () => {
      await expect(sale()).rejects.toBeInstanceOf(LockCommitUnknownError);
      const again = sell((tx) => takeOne(tx));
      await expect(again).rejects.toBeInstanceOf(LockCommitUnknownError);
    });
  });

  it('send no COMMIT without the lock, whichever was connected first', async () => {
    let lose = async (): Promise<void> => {};
    const { locks, sale } = await beside(async (client, text) => {
      await lose();
      return client.query(text);
    });
    await locks
      .withLock(stock.key, async (lock) => {
        lose = async () => {
          await locks.forceRelease(stock.key);
          await eventually(async () => expect(lock.isHeld).toBe(false));
        };
        await expect(sale()).rejects.toBeInstanceOf(LockLostError);
      })
      .catch((error: unknown) => expect(error).toBeInstanceOf(LockLostError));
    expect(await stock.quantity()).toBe(100);
  });

  it('are those of TypeORM as well, although a subscriber has connected another one', async () => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
    const { locks } = await startLocks(redis.url);
    const { master } = dataSource.driver as unknown as { master: pg.Pool };
    let other: pg.PoolClient | undefined;
    dataSource.subscribers.push({
      async beforeTransactionStart() {
        other = await master.connect();
      },
    });
    await locks.withLock(stock.key, () =>
      dataSource.transaction(async (manager) => {
        await other?.query('BEGIN');
        await other?.query('COMMIT');
        other?.release();
        await stock.takeOne(manager);
      }),
    );
    expect(await stock.quantity()).toBe(99);
  });

  it('are closed if the database refuses a ROLLBACK: the pool hands out no open transaction', async () => {
    const pool = new pg.Pool({ connectionString: postgres.url, max: 1 });
    pool.on('error', () => {});
    afterTest(() => pool.end());
    const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
    const { locks } = await startLocks(redis.url);
    let refused: unknown;
    const sale = locks.withLock(stock.key, () =>
      run(async (wrap) => {
        const client = await pool.connect();
        try {
          await client.query('BEGIN');
          return await wrap(client, () => Promise.reject(new Error('no stock')));
        } finally {
          refused = await client.query('ROLLBACK AND NOTHING').catch((error: unknown) => error);
          client.release();
        }
      }),
    );
    await expect(sale).rejects.toThrow('no stock');
    expect(refused).toMatchObject({ code: '42601' });
    const { rows } = await pool.query<{ one: number }>('SELECT 1 AS one');
    expect(rows).toEqual([{ one: 1 }]);
  });

  it('are closed if the body commits on them: what it sends next takes no effect on its own', async () => {
    const { pool, locks } = await open();
    const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
    const sale = locks.withLock(stock.key, () =>
      run(async (wrap) => {
        const client = await pool.connect();
        try {
          await client.query('BEGIN');
          await wrap(client, async (tx) => {
            await takeOne(tx);
            await client.query('COMMIT').catch(() => {});
            await takeOne(client).catch(() => {});
          });
        } finally {
          client.release(); // without a ROLLBACK
        }
      }),
    );
    await expect(sale).rejects.toThrow(/only the code that has opened it may do/);
    await pool.query('COMMIT');
    expect(await stock.quantity()).toBe(100);
  });

  it.each(['the client', 'what was handed out for it'])(
    'take nothing of the body behind the ROLLBACK in the place of a COMMIT, over %s',
    async (over) => {
      const { pool } = await open();
      const { locks } = await startLocks(redis.url); // no time-out of a fence ends the connection
      const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
      const refused = makeGate();
      let late: Promise<string> | undefined;
      const leaseMs = 1_500;
      beforeCommit(() => standStill(leaseMs + 100));
      const sale = locks.withLock(stock.key, { leaseMs }, () =>
        run(async (wrap) => {
          const client = await pool.connect();
          try {
            await client.query('BEGIN');
            await wrap(client, async (tx) => {
              late = refused.opened
                .then(() => takeOne(over === 'the client' ? client : tx))
                .then(
                  () => 'written',
                  () => 'refused',
                );
            });
            const commit = client.query('COMMIT');
            refused.open();
            await commit;
          } finally {
            await late;
            client.release();
          }
        }),
      );
      await expect(sale).rejects.toBeInstanceOf(LockLostError);
      expect([await late, await stock.quantity()]).toEqual(['refused', 100]);
    },
  );

  it('are left as they were if nothing was sent on them', async () => {
    const { pool, locks } = await open();
    const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
    let client: pg.PoolClient | undefined;
    const failing = locks.withLock(stock.key, () =>
      run(async () => {
        client = await pool.connect();
        client.release();
        throw new Error('before its BEGIN');
      }),
    );
    await expect(failing).rejects.toThrow('before its BEGIN');
    expect(Object.hasOwn(client ?? {}, 'query')).toBe(false);
  });

  it('take no unfenced transaction either, after a commit in doubt', async () => {
    const { proxy, locks, sell } = await open();
    const sale = (): Promise<unknown> => unfenced(() => sell((tx) => takeOne(tx)));
    await locks.withLock(stock.key, async () => {
      proxy.breakAt('COMMIT');
      await expect(sale()).rejects.toBeInstanceOf(LockCommitUnknownError);
      await expect(sale()).rejects.toBeInstanceOf(LockCommitUnknownError);
    });
    expect(await stock.quantity()).toBe(100);
  });
});
