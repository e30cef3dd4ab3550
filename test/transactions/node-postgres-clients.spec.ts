import { describe, expect, it } from '@jest/globals';
import { Kysely, PostgresDialect, sql } from 'kysely';
import {
  LockCommitUnknownError,
  LockInTransactionError,
  LockLostError,
  type LockService,
} from 'nestjs-locked';
import { lockAwareTransactions, unfenced, type WrapBody } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import pg from 'pg';
import { guardedTx } from '../../libs/nestjs-locked/src/transactions/orm/guarded-tx.js';
import {
  knownPgClient,
  stateOfClient,
} from '../../libs/nestjs-locked/src/transactions/orm/pg-client.js';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { PostgresProxy } from '../support/postgres-proxy.js';
import { useRedis } from '../support/shared-redis.js';
import { standStill } from '../support/stand-still.js';
import { beforeCommit } from './before-commit.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { transactionsOf } from './recipes/node-postgres.js';
import { useStock } from './stock.js';

describe('a client of the application', () => {
  type RunTransaction = ReturnType<typeof lockAwareTransactions<pg.PoolClient>>;

  interface Opened {
    readonly pool: pg.Pool;
    readonly run: RunTransaction;
    readonly locks: LockService;
  }

  type Runs = Pick<pg.ClientBase, 'query'>;

  /** The error of a database that requires the transaction to be run again. */
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

    /** A transaction of code without locks. Each step waits for the test. */
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

    /**
     * @param begins when the other user begins on the client that was used for reading
     * @param commits when the other user commits
     */
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
      'is not the one with which it has read before, which has another user: begun %s, committed %s the body',
      readFirst,
    );

    it('is not one that was released: the BEGIN of its next user is sent', async () => {
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

    /** Repeats its transaction if the database requires it. @param commits called before the COMMIT */
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
      'is asked for the outcome of the COMMIT in %s',
      async (commit) => {
        const { pool, run, locks } = await open();
        const sale = locks.withLock(stock.key, () =>
          run(async (wrap) => {
            const client = await pool.connect();
            try {
              await client.query('BEGIN');
              await wrap(client, takeOne);
              const failing = client.query('SELECT 1 / 0').catch(() => {}); // not awaited
              Object.assign(client, { getTransactionStatus: () => null }); // otherwise it would be refused
              await client.query(commit);
              await failing;
            } finally {
              client.release(true);
            }
          }),
        );
        if (commit.startsWith('SELECT'))
          await expect(sale).rejects.toMatchObject({ code: '25P02' });
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

    it('belongs to its next user if it was rolled back and released while the body continues', async () => {
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
});

describe('clients of a pool', () => {
  type Send = (client: pg.PoolClient, text: string) => Promise<unknown>;

  const plainly: Send = (client, text) => client.query(text);

  /** All forms in which node-postgres takes a statement with a callback, and so returns no promise. */
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

      it('and a COMMIT in doubt is not mistaken for a rollback', async () => {
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

      it('and a COMMIT that the database refuses was not executed', async () => {
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

    /** Connects another client before the client of the transaction. */
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
              await reader.query('COMMIT'); // of its own transaction
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

    it('leave a COMMIT in doubt, whichever was connected first', async () => {
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

    it('include those of TypeORM, although a subscriber has connected another one', async () => {
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

    it('are closed if the body commits on them: its next statements have no effect on their own', async () => {
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
      'accept nothing of the body after the ROLLBACK in the place of a COMMIT, over %s',
      async (over) => {
        const { pool } = await open();
        const { locks } = await startLocks(redis.url); // without a fence, no time-out ends the connection
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

    it('are unchanged if nothing was sent on them', async () => {
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

    it('accept no unfenced transaction either after a commit in doubt', async () => {
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
});

describe('a single client', () => {
  const client = (status: string | null, more: object = {}) => ({
    readyForQuery: true,
    _queryable: true,
    status,
    getTransactionStatus(): unknown {
      return this.status;
    },
    ...more,
  });

  describe('a client of node-postgres', () => {
    it.each([
      ['in a transaction', 'open', client('T')],
      ['in one that was aborted', 'failed', client('E')],
      ['in none', 'none', client('I')],
      ['that has received nothing yet', undefined, client(null)],
      ['that waits for an answer', undefined, client('T', { readyForQuery: false })],
      ['whose connection is gone', undefined, client('T', { _queryable: false })],
      ['of a version that reports less', undefined, client('T', { _queryable: undefined })],
    ])('%s: %s', (_, status, known) => {
      expect(stateOfClient(() => known).transactionStatus).toBe(status);
    });

    it('that does not exist is known to be in no transaction', () => {
      expect(stateOfClient(() => undefined).transactionStatus).toBeUndefined();
    });

    it.each([
      ['itself', (pg: object) => pg],
      ['TypeORM', (pg: object) => ({ queryRunner: { databaseConnection: pg } })],
      ['Drizzle', (pg: object) => ({ session: { client: pg } })],
      ['Sequelize', (pg: object) => ({ connection: pg })],
    ])('is found in the transaction of %s', (_, transactionOf) => {
      const pg = client('T');
      expect(knownPgClient(transactionOf(pg))).toBe(pg);
    });

    it.each([{}, { connection: {} }, { readyForQuery: true }, { getTransactionStatus: () => 'T' }])(
      'is not recognised in: %j',
      (tx) => {
        expect(knownPgClient(tx)).toBeUndefined();
      },
    );
  });
});

describe('a guarded client', () => {
  const ENDS = /\b(?:COMMIT|END|ROLLBACK)\b/i;

  /** A client that records what it is sent, and a guard that records endings and can refuse every statement. */
  function guarded() {
    const sent: string[] = [];
    const read: string[] = [];
    let state: 'open' | 'failing' | 'ended' = 'open';
    const note = async (sql: string): Promise<void> => void sent.push(sql);
    const client = {
      query: note,
      unheardOf: note,
      none: note,
      func: note,
      escapeLiteral: (value: string) => `'${value}'`,
      prepare: async () => ({
        execute: (values: string[]) => note(values.join()),
        close: () => {},
      }),
      task: (_name: string, body: (tx: { none: typeof note }) => Promise<unknown>) => body(client),
    };
    const guard = {
      assertTakes: (sql?: string) => {
        if (state !== 'open') throw new Error('refused');
        if (sql !== undefined && ENDS.test(sql)) read.push(sql);
      },
      mayRollBack: () => state !== 'ended',
    };
    const tx = guardedTx(client, undefined, guard) as typeof client;
    return {
      tx,
      sent,
      read,
      fail: () => void (state = 'failing'),
      end: () => void (state = 'ended'),
    };
  }

  describe('a guarded client', () => {
    it('rolls back after a rollback to a savepoint, which ends nothing', async () => {
      const { tx, sent, fail } = guarded();
      await tx.query('ROLLBACK TO SAVEPOINT a');
      await tx.query('ROLLBACK WORK TO a');
      fail();
      await tx.query('ROLLBACK');
      expect(sent).toEqual(['ROLLBACK TO SAVEPOINT a', 'ROLLBACK WORK TO a', 'ROLLBACK']);
    });

    it('rolls back only once: the connection may be somebody else’s then', async () => {
      const { tx, sent, fail } = guarded();
      fail();
      await tx.query('ROLLBACK');
      await expect(tx.query('ROLLBACK')).rejects.toThrow('refused');
      expect(sent).toEqual(['ROLLBACK']);
    });

    it.each(['ROLLBACK', 'ROLLBACK TO SAVEPOINT a', 'rollback to a', 'INSERT INTO a VALUES (1)'])(
      'sends no %s once its transaction has ended',
      async (sql) => {
        const { tx, sent, end } = guarded();
        end();
        await expect(tx.query(sql)).rejects.toThrow('refused');
        expect(sent).toEqual([]);
      },
    );

    it.each(['ROLLBACK TO SAVEPOINT a', 'INSERT INTO a VALUES (1)'])(
      'sends no %s while it is rolled back',
      async (sql) => {
        const { tx, sent, fail } = guarded();
        fail();
        await expect(tx.query(sql)).rejects.toThrow('refused');
        expect(sent).toEqual([]);
      },
    );

    it('executes no statement that was prepared before the end', async () => {
      const { tx, sent, end } = guarded();
      const statement = await tx.prepare();
      await statement.execute(['end']);
      end();
      expect(() => statement.execute(['late'])).toThrow('refused');
      statement.close();
      expect(sent).toEqual(['end']);
    });

    it.each<[string, (tx: ReturnType<typeof guarded>['tx']) => unknown]>([
      ['a value that is quoted', (tx) => tx.escapeLiteral('END')],
      ['the name of a function', (tx) => tx.func('end')],
      ['the name of a task', (tx) => tx.task('commit', async () => {})],
      [
        'the argument of an unknown method',
        (tx) => tx.unheardOf('End of the meeting; commit to it'),
      ],
    ])('does not mistake %s for SQL', async (_, use) => {
      const { tx, read } = guarded();
      await use(tx);
      expect(read).toEqual([]);
    });

    it.each<[string, (tx: ReturnType<typeof guarded>['tx']) => unknown]>([
      ['a text', (tx) => tx.query('COMMIT')],
      ['a configuration', (tx) => tx.query({ text: 'COMMIT' } as never)],
      ['the options of mysql2', (tx) => tx.query({ sql: 'COMMIT' } as never)],
      ['a stream', (tx) => tx.query({ cursor: { text: 'COMMIT' } } as never)],
      ['another method that sends', (tx) => tx.none('COMMIT')],
      ['a part of the transaction', (tx) => tx.task('part', (part) => part.none('COMMIT'))],
      [
        'an unknown method that gets the end of a transaction',
        (tx) => tx.unheardOf('SELECT 1; COMMIT WORK'),
      ],
    ])('reads %s', async (_, send) => {
      const { tx, read } = guarded();
      await send(tx);
      expect(read).toHaveLength(1);
      expect(read[0]).toMatch(/COMMIT/);
    });
  });
});
