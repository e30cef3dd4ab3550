import { describe, expect, it } from '@jest/globals';
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres';
import knexOf, { type Knex } from 'knex';
import { createPool } from 'mysql2/promise';
import { LockCommitUnknownError, LockInTransactionError, LockLostError } from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import pg from 'pg';
import pgPromise from 'pg-promise';
import postgres from 'postgres';
import { DataSource, type Logger } from 'typeorm';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { type TestDatabase, useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { uniqueKey } from '../support/unique-key.js';
import { openDataSource } from './data-source.js';
import { drizzleRuns } from './drizzle-runs.js';
import { isHeld, startLocks } from './locks.js';
import { mysql2Transactions } from './mysql2-transactions.js';
import { byHand, type OpensTransaction, withCallback } from './opened-transaction.js';
import { transactionsOf } from './recipes/node-postgres.js';
import { inTransaction } from './recipes/postgres-js.js';
import { useStock } from './stock.js';

describe('a late ROLLBACK', () => {
  /** A transaction of any library. */
  interface Tx {
    send(sql: string): Promise<unknown>;
    /** Runs a part in a savepoint, which is undone as the library or its users do it. */
    part(work: (part: Tx) => Promise<void>): Promise<unknown>;
  }

  type Transaction = (work: (tx: Tx) => Promise<unknown>) => Promise<unknown>;

  /** The errors of a branch's own rollback; empty if it has requested none. */
  type Refusals = unknown[];

  /** Opens transactions on a pool of one connection. */
  type Open = (url: string, refusals: Refusals) => Transaction;

  /** The savepoints that applications write for a driver without support for them. */
  function byHand(send: Tx['send'], undo: string, refusals: Refusals): Tx {
    const tx: Tx = {
      send,
      part: async (work) => {
        await send('SAVEPOINT sp');
        try {
          await work(tx);
          await send('RELEASE SAVEPOINT sp');
        } catch (error) {
          await send(undo).catch((refused: unknown) => refusals.push(refused));
          throw error;
        }
      },
    };
    return tx;
  }

  const onNodePostgres =
    (undo: string): Open =>
    (url, refusals) => {
      const run = transactionsOf(openPool(url));
      return (work) => run((client) => work(byHand((sql) => client.query(sql), undo, refusals)));
    };

  function openPool(url: string): pg.Pool {
    const pool = new pg.Pool({ connectionString: url, max: 1 });
    pool.on('error', () => {});
    afterTest(() => pool.end());
    return pool;
  }

  const onMySql2 =
    (undo: string): Open =>
    (uri, refusals) => {
      const pool = createPool({ uri, connectionLimit: 1 });
      afterTest(() => pool.end());
      const run = mysql2Transactions(pool);
      return (work) => run((client) => work(byHand((sql) => client.query(sql), undo, refusals)));
    };

  type Drizzle = ReturnType<typeof drizzle>;
  type DrizzleTx = Parameters<Parameters<Drizzle['transaction']>[0]>[0];

  const onDrizzle: Open = (url) => {
    const database = drizzle(openPool(url));
    const run = lockAwareTransactions<DrizzleTx>();
    const known = (tx: DrizzleTx): Tx => ({
      send: (sql) => drizzleRuns(tx as unknown as NodePgDatabase).query(sql, []),
      part: (work) => tx.transaction((part) => work(known(part))),
    });
    return (work) =>
      run((wrap) => database.transaction((opened) => wrap(opened, (tx) => work(known(tx)))));
  };

  const onPostgresJs: Open = (url) => {
    const sql = postgres(url, { max: 1, onnotice: () => {} });
    afterTest(() => sql.end({ timeout: 0 }));
    const known = (tx: postgres.TransactionSql): Tx => ({
      send: (text) => tx.unsafe(text),
      part: (work) => tx.savepoint((part) => work(known(part))),
    });
    return (work) => inTransaction(sql, (tx) => work(known(tx)));
  };

  const onPgPromise: Open = (url) => {
    const database = pgPromise({ noWarnings: true })({ connectionString: url, max: 1 });
    afterTest(() => database.$pool.end());
    type Task = pgPromise.ITask<object>;
    const run = lockAwareTransactions<Task>({ pool: database.$pool });
    const known = (tx: Task): Tx => ({
      send: (text) => tx.none(text),
      part: (work) => tx.tx((part) => work(known(part))),
    });
    return (work) => run((wrap) => database.tx((opened) => wrap(opened, (tx) => work(known(tx)))));
  };

  const redis = useRedis();

  function describeLateRollbacks(
    useDatabase: () => TestDatabase,
    libraries: readonly (readonly [string, Open])[],
  ): void {
    const database = useDatabase();

    describe.each(libraries)('%s', (_, open) => {
      const start = async () => {
        await database.query('DROP TABLE IF EXISTS note');
        await database.query('CREATE TABLE note (text varchar(40))');
        const refusals: Refusals = [];
        const { locks } = await startLocks(redis.url);
        const notes = async (): Promise<string[]> => {
          const rows = await database.query<{ text: string }>(
            'SELECT text FROM note ORDER BY text',
          );
          return rows.map(({ text }) => text);
        };
        return { locks, notes, refusals, transaction: open(database.url, refusals) };
      };
      const note = (tx: Tx, text: string): Promise<unknown> =>
        tx.send(`INSERT INTO note VALUES ('${text}')`);

      it.each([true, false])(
        'undoes nothing of the next transaction on its connection (the first one fails: %s)',
        async (fails) => {
          const { locks, notes, transaction, refusals } = await start();
          const [begun, second] = [makeGate(), makeGate()];
          let late: Promise<unknown> | undefined;
          const first = locks.withLock(uniqueKey('first'), () =>
            transaction(async (tx) => {
              late = tx.part(async (part) => {
                begun.open();
                await second.opened;
                await note(part, 'late');
              });
              late.catch(() => {});
              await begun.opened;
              if (fails) throw new Error('the other branch has failed');
            }),
          );
          await (fails ? expect(first).rejects.toThrow('the other branch has failed') : first);
          await transaction(async (tx) => {
            await note(tx, 'a');
            await tx.part(async (part) => {
              await note(part, 'b');
              second.open();
              await expect(late).rejects.toThrow();
              await note(part, 'c');
            });
          });
          expect(await notes()).toEqual(['a', 'b', 'c']);
          for (const refusal of refusals) expect(refusal).toBeInstanceOf(LockInTransactionError);
        },
      );

      it('undoes nothing of the next run of its transaction', async () => {
        const { locks, notes, transaction } = await start();
        const again = makeGate();
        const key = uniqueKey('restart');
        let runs = 0;
        let late: Promise<unknown> | undefined;
        await transaction(async (tx) => {
          if (++runs === 1) {
            const begun = makeGate();
            late = tx.part(async (part) => {
              begun.open();
              await again.opened;
              await note(part, 'late');
            });
            late.catch(() => {});
            await begun.opened;
          }
          await locks.withLock(key, { insideTransaction: 'restart' }, async () => {
            await note(tx, 'a');
            await tx.part(async (part) => {
              await note(part, 'b');
              again.open();
              await expect(late).rejects.toThrow();
            });
            await note(tx, 'c');
          });
        });
        expect(runs).toBe(2);
        expect(await notes()).toEqual(['a', 'b', 'c']);
      });
    });
  }

  describe('a late rollback of a branch on PostgreSQL', () => {
    describeLateRollbacks(usePostgres, [
      ['ROLLBACK TO SAVEPOINT of node-postgres', onNodePostgres('ROLLBACK TO SAVEPOINT sp')],
      ['ROLLBACK of node-postgres', onNodePostgres('ROLLBACK')],
      ['a nested transaction of Drizzle', onDrizzle],
      ['a savepoint of postgres.js', onPostgresJs],
      ['a nested transaction of pg-promise', onPgPromise],
    ]);
  });

  describeWithMariaDb('a late rollback of a branch on MariaDB', () => {
    describeLateRollbacks(useMariaDb, [
      ['ROLLBACK TO SAVEPOINT of mysql2', onMySql2('ROLLBACK TO SAVEPOINT sp')],
      ['ROLLBACK of mysql2', onMySql2('ROLLBACK')],
    ]);
  });
});

describe('a refused ROLLBACK', () => {
  const redis = useRedis();
  const postgres = usePostgres();

  const codeOf = (work: Promise<unknown>): Promise<unknown> =>
    work.then(
      () => undefined,
      ({ code }: { code?: unknown }) => code,
    );

  /** Sends `refused` instead of the ROLLBACK, and then a real ROLLBACK. @returns both outcomes */
  async function rollBackTwice(refused: string, from: 'the body' | 'its opener') {
    const pool = new pg.Pool({ connectionString: postgres.url, max: 1 });
    pool.on('error', () => {});
    afterTest(() => pool.end());
    const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
    const told: unknown[] = [];
    const work = run(async (wrap) => {
      const client = await pool.connect();
      const send = async (): Promise<void> => void told.push(await codeOf(client.query(refused)));
      try {
        await client.query('BEGIN');
        await wrap(client, async () => (from === 'the body' ? send() : undefined));
        throw new Error('rolled back');
      } finally {
        if (from !== 'the body') await send();
        const answer = await client.query('ROLLBACK').catch((error: unknown) => error);
        told.push((answer as { command?: string }).command);
        client.release();
      }
    });
    await work.catch(() => {});
    return told;
  }

  describe('a ROLLBACK that the database refuses', () => {
    it.each([
      ['ROLLBACK nothing', 'the body'],
      ['ABORT nothing', 'the body'],
      ['ROLLBACK nothing', 'its opener'],
    ] as const)(
      'does not touch the connection without a lock: %s, from %s',
      async (refused, from) => {
        expect(await rollBackTwice(refused, from)).toEqual(['42601', 'ROLLBACK']);
      },
    );

    it.each(['the body', 'its opener'] as const)(
      'closes it under a lock, so that no pool hands out the transaction: from %s',
      async (from) => {
        const { locks } = await startLocks(redis.url);
        const told = locks.withLock('refused', () => rollBackTwice('ROLLBACK nothing', from));
        expect(await told).toEqual(['42601', undefined]);
      },
    );
  });
});

describe('an unanswered ROLLBACK', () => {
  /** The query time-out of TypeORM, the only time-out that its pool of mysql2 has. */
  const QUERY_TIMEOUT_MS = 400;

  /** Otherwise TypeORM prints every statement that takes too long. */
  const SILENT: Logger = {
    logQuery: () => {},
    logQueryError: () => {},
    logQuerySlow: () => {},
    logSchemaBuild: () => {},
    logMigration: () => {},
    log: () => {},
  };

  describeWithMariaDb('a connection to MariaDB whose ROLLBACK was not answered', () => {
    const redis = useRedis();
    const mariaDb = useMariaDb();
    const stock = useStock(mariaDb, 'mysql');

    const start = async () => {
      const { host, port, user, password, database } = mariaDb.settings;
      const proxy = await TcpProxy.start(port);
      const dataSource = await new DataSource({
        type: 'mysql',
        ...{ host, username: user, password, database },
        port: Number(new URL(proxy.url).port),
        poolSize: 1,
        maxQueryExecutionTime: QUERY_TIMEOUT_MS,
        enableQueryTimeout: true,
        logger: SILENT,
      }).initialize();
      afterTest(() => dataSource.destroy());
      const { locks } = await startLocks(redis.url);
      return { proxy, dataSource: lockAwareDataSource(dataSource), locks };
    };
    const connectionOf = async (manager: { query(sql: string): Promise<unknown> }) => {
      const [{ id }] = (await manager.query('SELECT connection_id() AS id')) as [{ id: unknown }];
      return String(id);
    };

    it.each(['under a lock', 'without one'])(
      'never returns to the pool: the next transaction gets another one (%s)',
      async (where) => {
        const { proxy, dataSource, locks } = await start();
        let failed = '';
        let silent: Promise<void> | undefined;
        const sell = (): Promise<void> =>
          dataSource.transaction(async (manager) => {
            failed = await connectionOf(manager);
            await stock.takeOne(manager);
            silent = proxy.silenceAt('rollback');
            throw new Error('no stock');
          });
        const sale = where === 'under a lock' ? locks.withLock(stock.key, sell) : sell();
        const from = performance.now();
        await expect(sale).rejects.toThrow(/no stock|inactivity timeout/);
        await silent;
        expect(performance.now() - from).toBeLessThan(4_000);
        expect(await isHeld(redis.url, stock.key)).toBe(false);
        const next = await dataSource.transaction(connectionOf);
        expect(Number(next)).toBeGreaterThan(Number(failed));
        expect(await stock.quantity()).toBe(100);
      },
    );
  });
});

describe('an unanswered question of the gate', () => {
  const redis = useRedis();

  const LEASE = { leaseMs: 1_500, transactionTimeouts: false } as const;
  /** A sale that has not ended after this time is considered pending forever. */
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

  describe('a gate whose query PostgreSQL does not answer because a stream is not read', () => {
    const postgres = usePostgres();
    const stock = useStock(postgres);
    const ROWS = 'SELECT generate_series(1, 100000)';

    /** Reads only the first row with a cursor. */
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
      const dataSource = lockAwareDataSource(
        await openDataSource('postgres', postgres.settings, 1),
      );
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
      expect(String(failed)).toMatch(/has not answered .* is closed/);
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

    const sellOn =
      (client: pg.Client, body: (client: pg.Client) => Promise<unknown>) => async () => {
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
      const limits = { leaseMs: 6_000, maxHoldMs: 1_500 }; // the lock is lost before its lease ends
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

    it('waits for a row at least as long as pruning may lock it, whatever waitMs says', async () => {
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
      'fails with the lease if its connection is dead since %s: Knex',
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
});
