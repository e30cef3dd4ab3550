import { describe, expect, it } from '@jest/globals';
import knexOf, { type Knex } from 'knex';
import { createPool } from 'mysql2/promise';
import { LockCommitUnknownError, LockLostError } from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import pg from 'pg';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { eventually } from '../support/eventually.js';
import { useRedis } from '../support/shared-redis.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { mysql2Transactions } from './mysql2-transactions.js';
import { byHand, type OpensTransaction, withCallback } from './opened-transaction.js';
import { transactionsOf } from './recipes/node-postgres.js';
import { useStock } from './stock.js';

const redis = useRedis();

const LEASE = { leaseMs: 1_500, transactionTimeouts: false } as const;
/** The sale would be pending for ever. */
const PENDING_MS = 20_000;

const settled = async (sale: Promise<unknown>): Promise<unknown> => {
  const failed = sale.then(
    () => 'committed',
    (error: unknown) => error,
  );
  return Promise.race([failed, sleep(PENDING_MS, 'pending', { ref: false })]);
};

const FORMS: [string, OpensTransaction][] = [
  ['with a callback', withCallback],
  [
    'by hand',
    byHand(async (runner) => {
      if (runner.isTransactionActive) await runner.rollbackTransaction().catch(() => {});
    }),
  ],
];

describe('a gate whose question PostgreSQL does not answer, because a stream is not read', () => {
  const postgres = usePostgres();
  const stock = useStock(postgres);
  const ROWS = 'SELECT generate_series(1, 100000)';

  /** A cursor that asks for the first row, and for no other. */
  const readOne = (client: pg.ClientBase): void => {
    const config: pg.QueryConfig & { rows: number } = { text: ROWS, values: [], rows: 1 };
    const cursor = new pg.Query(config).on('error', () => {});
    client.query(Object.assign(cursor, { handlePortalSuspended: () => {} }));
  };

  const areClosed = (): Promise<void> =>
    eventually(async () => {
      const busy = await postgres.query(
        `SELECT pid FROM pg_stat_activity WHERE query = $1 AND datname = current_database()`,
        [ROWS],
      );
      expect(busy).toEqual([]);
    });

  it.each(FORMS)('fails with the lease, and its connection is closed: %s', async (_, opened) => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startLocks(redis.url, LEASE);
    const sale = locks.withLock(stock.key, () =>
      opened(dataSource, async (runner) => {
        await stock.takeOne(runner);
        readOne((await runner.connect()) as pg.PoolClient);
      }),
    );
    expect(await settled(sale)).toBeInstanceOf(LockLostError);
    await areClosed();
    expect([await isHeld(redis.url, stock.key), await stock.quantity()]).toEqual([false, 100]);
    await locks.withLock(stock.key, () => opened(dataSource, (runner) => stock.takeOne(runner)));
    expect(await stock.quantity()).toBe(99);
  });

  it('fails with the lease, and its connection is closed: node-postgres', async () => {
    const pool = new pg.Pool({ connectionString: postgres.url, max: 1 });
    afterTest(() => pool.end());
    const sell = transactionsOf(pool);
    const { locks } = await startLocks(redis.url, { ...LEASE, fence: true });
    const sale = locks.withLock(stock.key, () =>
      sell(async (tx) => {
        await tx.query('UPDATE stock SET quantity = 0 WHERE id = $1', [stock.product]);
        readOne(tx);
      }),
    );
    const failed = await settled(sale);
    expect(failed).toBeInstanceOf(LockLostError);
    expect(String(failed)).toMatch(/has answered nothing .* is closed/);
    await areClosed();
    expect([await isHeld(redis.url, stock.key), await stock.quantity()]).toEqual([false, 100]);
    await locks.withLock(stock.key, () => sell((tx) => tx.query('SELECT 1')));
  });
});

describe('a client of node-postgres that nobody listens to', () => {
  const postgres = usePostgres();
  const stock = useStock(postgres);

  interface Tx {
    readonly via: pg.Client;
  }

  const open = async (): Promise<pg.Client> => {
    const client = new pg.Client({ connectionString: postgres.url });
    await client.connect();
    afterTest(() => client.end());
    return client;
  };

  const sellOn = (client: pg.Client, body: (client: pg.Client) => Promise<unknown>) => async () => {
    const run = lockAwareTransactions<pg.Client>({ dialect: 'postgres' });
    await run(async (wrap) => {
      await client.query('BEGIN');
      try {
        await wrap(client, body);
        await client.query('COMMIT');
      } catch (error) {
        await client.query('ROLLBACK').catch(() => {});
        throw error;
      }
    });
  };

  it('does not end the process when its connection is closed', async () => {
    const client = await open();
    const { locks } = await startLocks(redis.url, LEASE);
    const sell = sellOn(client, async (tx) => {
      await tx.query('UPDATE stock SET quantity = 0 WHERE id = $1', [stock.product]);
      expect(client.listenerCount('error')).toBe(0);
      void tx.query('SELECT pg_sleep(60)').catch(() => {});
    });
    const ended = new Promise<void>((resolve) => client.once('end', resolve));
    expect(await settled(locks.withLock(stock.key, sell))).toBeInstanceOf(LockLostError);
    await ended;
    await postgres.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(60)'
       AND datname = current_database() AND pid <> pg_backend_pid()`,
    );
    expect(await stock.quantity()).toBe(100);
  });

  it('commits nothing if the lock is lost while the gate asks, although its COMMIT is not seen', async () => {
    const client = await open();
    const limits = { leaseMs: 6_000, maxHoldMs: 1_500 }; // lost, although its lease lasts
    const { locks } = await startLocks(redis.url, { ...LEASE, ...limits, fence: true });
    let signal: AbortSignal | undefined;
    const run = lockAwareTransactions<Tx>({
      dialect: 'postgres',
      query: async ({ via }, sql, params) => {
        if (sql.includes('inside')) await eventually(() => expect(signal?.aborted).toBe(true));
        return via.query(sql, params);
      },
    });
    const sale = locks.withLock(stock.key, (lock) => {
      signal = lock.signal;
      return run(async (wrap) => {
        await client.query('BEGIN');
        try {
          await wrap({ via: client }, () =>
            client.query('UPDATE stock SET quantity = 0 WHERE id = $1', [stock.product]),
          );
          await client.query('COMMIT');
        } catch (error) {
          await client.query('ROLLBACK');
          throw error;
        }
      });
    });
    await expect(sale).rejects.toBeInstanceOf(LockLostError);
    expect(signal?.aborted).toBe(true);
    expect(await stock.quantity()).toBe(100);
  });

  it('waits for a row at least as long as a table takes that is pruned, whatever waitMs says', async () => {
    const client = await open();
    const { locks } = await startLocks(redis.url, { fence: true });
    const waits: unknown[] = [];
    const run = lockAwareTransactions<Tx>({
      dialect: 'postgres',
      query: ({ via }, sql, params) => {
        if (sql.includes('lock_fence')) waits.push(params.includes('100'));
        return via.query(sql, params);
      },
    });
    await locks.withLock(stock.key, { waitMs: 0 }, () =>
      run(async (wrap) => {
        await client.query('BEGIN');
        await wrap({ via: client }, () => client.query('SELECT 1'));
        await client.query('COMMIT');
      }),
    );
    expect(waits).toEqual([true]);
  });
});

describeWithMariaDb('a gate whose question MariaDB does not answer', () => {
  const mariaDb = useMariaDb();
  const stock = useStock(mariaDb, 'mysql');

  const start = async () => {
    const proxy = await TcpProxy.start(mariaDb.settings.port);
    const settings = { ...mariaDb.settings, port: Number(new URL(proxy.url).port) };
    const { locks } = await startLocks(redis.url, LEASE);
    return { proxy, settings, locks };
  };

  it.each(FORMS)('fails with the lease if its connection is dead: %s', async (_, opened) => {
    const { proxy, settings, locks } = await start();
    const dataSource = lockAwareDataSource(await openDataSource('mysql', settings, 1));
    const sale = locks.withLock(stock.key, () =>
      opened(dataSource, async (runner) => {
        await stock.takeOne(runner);
        void proxy.silenceAt('release savepoint');
      }),
    );
    expect(await settled(sale)).toBeInstanceOf(LockLostError);
    expect([await isHeld(redis.url, stock.key), await stock.quantity()]).toEqual([false, 100]);
    await locks.withLock(stock.key, () => opened(dataSource, (runner) => stock.takeOne(runner)));
    expect(await stock.quantity()).toBe(99);
  });

  it.each(['release savepoint', 'commit'])(
    'fails with the lease if its connection is dead from %s on: Knex',
    async (from) => {
      const { proxy, settings, locks } = await start();
      const knex = knexOf({ client: 'mysql2', connection: settings, pool: { min: 0, max: 1 } });
      afterTest(() => knex.destroy());
      const run = lockAwareTransactions<Knex.Transaction>();
      const sell = (begin: () => void = () => {}): Promise<unknown> =>
        run((wrap) =>
          knex.transaction((own) =>
            wrap(own, async (tx) => {
              await tx('stock').where({ id: stock.product }).decrement('quantity', 1);
              begin();
            }),
          ),
        );
      const sale = locks.withLock(stock.key, () => sell(() => void proxy.silenceAt(from)));
      const expected = from === 'commit' ? LockCommitUnknownError : LockLostError;
      expect(await settled(sale)).toBeInstanceOf(expected);
      await sell(); // on the only connection of the pool, and on the same row
      expect(await stock.quantity()).toBe(99);
    },
  );

  it('fails with the lease if its connection is dead: mysql2', async () => {
    const { proxy, settings, locks } = await start();
    const { host, port, user, password, database } = settings;
    const pool = createPool({ host, port, user, password, database, connectionLimit: 1 });
    afterTest(() => pool.end());
    const sell = mysql2Transactions(pool);
    const sale = locks.withLock(stock.key, () =>
      sell(async (tx) => {
        await tx.query('UPDATE stock SET quantity = 0 WHERE id = ?', [stock.product]);
        void proxy.silenceAt('release savepoint');
      }),
    );
    expect(await settled(sale)).toBeInstanceOf(LockLostError);
    expect([await isHeld(redis.url, stock.key), await stock.quantity()]).toEqual([false, 100]);
    await locks.withLock(stock.key, () => sell((tx) => tx.query('SELECT 1')));
  });
});
