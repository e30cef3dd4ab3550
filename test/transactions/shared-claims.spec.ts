import { beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { createPool } from 'mysql2/promise';
import {
  LockCommitUnknownError,
  LockConfigError,
  LockFencedError,
  LockInTransactionError,
  LockLostError,
  type LockOptions,
  type LockService,
} from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import pg from 'pg';
import type { DataSource } from 'typeorm';
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { type TestDatabase, useMariaDb, useMySql, usePostgres } from '../support/databases.js';
import { describeWithMariaDb, describeWithMySql } from '../support/describe-if.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { openAdmin } from '../support/open-locks.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';
import { openDataSource } from './data-source.js';
import { startLocks } from './locks.js';
import { mysql2Transactions } from './mysql2-transactions.js';
import { inPgTransaction } from './pg-transaction.js';
import { createSlowCommitTable, killCommits, whenCommitting } from './slow-commit.js';
import { type Runs, type Stock, useStock } from './stock.js';

const ISOLATIONS = ['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'] as const;
type Isolation = (typeof ISOLATIONS)[number];

const SHARED = { mode: 'shared' } as const;

/** Runs work as other processes do, under no lock and in no transaction. */
const elsewhere = AsyncLocalStorage.snapshot() as <T>(work: () => T) => T;

/** @returns a function that waits until it was called this many times */
function meeting(count: number): () => Promise<void> {
  const all = makeGate();
  let here = 0;
  return () => {
    if (++here === count) all.open();
    return all.opened;
  };
}

/** Sells a piece on a client of node-postgres. */
async function takeOne(tx: pg.PoolClient, { product }: Stock): Promise<void> {
  await tx.query('UPDATE stock SET quantity = quantity - 1 WHERE id = $1', [product]);
}

async function isSettled(work: Promise<unknown>, withinMs = 300): Promise<boolean> {
  let settled = false;
  const note = (): void => void (settled = true);
  work.then(note, note);
  await sleep(withinMs);
  return settled;
}

/** What holds on every database. */
function claimsOfReaders(type: 'postgres' | 'mysql', useDatabase: () => TestDatabase): void {
  const redis = useRedis();
  const database = useDatabase();
  const stock = useStock(database, type);
  const place = type === 'postgres' ? '$1' : '?';

  const open = async (poolSize = 8): Promise<DataSource> =>
    lockAwareDataSource(await openDataSource(type, database.settings, poolSize));

  const start = async (options: object = {}): Promise<LockService> =>
    (await startLocks(redis.url, { fence: true, transactionTimeouts: false, ...options })).locks;

  const read = async (manager: Runs): Promise<number> => {
    const sql = `SELECT quantity FROM stock WHERE id = ${place}`;
    const rows = (await manager.query(sql, [stock.product])) as { quantity: number }[];
    return rows[0]?.quantity as number;
  };

  const tokenOf = async (key: string): Promise<number> => {
    const sql = `SELECT token FROM lock_fence WHERE lock_key = ${place}`;
    const [row] = await database.query<{ token: string | number }>(sql, [key]);
    return Number(row?.token);
  };

  /** Deletes the lock in Redis, so that others get it while its holders do not know yet that they have lost it. */
  const loseKey = async (key = stock.key): Promise<void> => {
    await openAdmin(redis.url).del(`lock:{${key}}`);
  };

  /** Opens the transaction of a reader. @returns its end, and how many times its body has run */
  const reading = async (
    locks: LockService,
    dataSource: DataSource,
    isolation: Isolation = 'READ COMMITTED',
    options: LockOptions = {},
  ) => {
    const [begun, mayEnd] = [makeGate(), makeGate()];
    const seen: number[] = [];
    const reader = (): Promise<void> =>
      locks.withLock(stock.key, { ...SHARED, ...options }, () =>
        dataSource.transaction(isolation, async (manager) => {
          seen.push(await read(manager));
          begun.open();
          await mayEnd.opened;
          seen.push(await read(manager));
        }),
      );
    const done = elsewhere(reader);
    done.catch(() => {});
    afterTest(() => mayEnd.open());
    return {
      begun: Promise.race([begun.opened, done]),
      seen,
      done,
      end: () => {
        mayEnd.open();
        return done;
      },
    };
  };

  describe.each(ISOLATIONS)('at %s', (isolation) => {
    const write = (locks: LockService, dataSource: DataSource, options: LockOptions = {}) =>
      elsewhere(() =>
        locks.withLock(stock.key, options, () =>
          dataSource.transaction(isolation, (manager) => stock.takeOne(manager)),
        ),
      );

    it('readers of several processes claim beside each other, and write nothing', async () => {
      const dataSource = await open();
      const services = [await start(), await start(), await start()];
      await write(services[0] as LockService, dataSource);
      const before = await stock.fence();
      const meet = meeting(3);
      const tokens = new Set<number>();
      await Promise.all(
        services.map((locks) =>
          locks.withLock(stock.key, SHARED, async ({ fencingToken }) => {
            tokens.add(fencingToken);
            await dataSource.transaction(isolation, async (manager) => {
              expect(await read(manager)).toBe(99);
              await meet();
            });
          }),
        ),
      );
      expect([tokens.size, await stock.fence()]).toEqual([3, before]);
    });

    it('readers of one lease have transactions at the same time, and so has each of them [R60]', async () => {
      const dataSource = await open();
      const locks = await start();
      await stock.raiseFence(1);
      const meet = meeting(6);
      const tokens = new Set<number>();
      const readTwice = () =>
        locks.withLock(stock.key, SHARED, ({ fencingToken }) => {
          tokens.add(fencingToken);
          return Promise.all([1, 2].map(() => dataSource.transaction(isolation, () => meet())));
        });
      await Promise.all([readTwice(), readTwice(), readTwice()]);
      expect([tokens.size, await stock.fence()]).toEqual([1, 1]);
    });

    it('the next writer waits until all readers have ended, and then claims', async () => {
      const dataSource = await open();
      const [mine, others, writer] = [await start(), await start(), await start()];
      await stock.raiseFence(1);
      const first = await reading(mine, dataSource, isolation);
      const second = await reading(others, dataSource, isolation);
      await Promise.all([first.begun, second.begun]);
      await loseKey();
      let token = 0;
      const written = writer.withLock(stock.key, async ({ fencingToken }) => {
        token = fencingToken;
        await dataSource.transaction(isolation, (manager) => stock.takeOne(manager));
      });
      expect(await isSettled(written)).toBe(false);
      await first.end();
      expect(await isSettled(written)).toBe(false);
      await second.end();
      await written;
      expect([first.seen, second.seen]).toEqual([
        [100, 100],
        [100, 100],
      ]);
      expect([await stock.quantity(), await stock.fence()]).toEqual([99, token]);
    });

    it('a stale reader is refused after a writer has committed [G46]', async () => {
      const dataSource = await open();
      const [mine, others] = [await start(), await start()];
      let ran = false;
      const stale = mine.withLock(stock.key, SHARED, async () => {
        await loseKey();
        await write(others, dataSource);
        await dataSource.transaction(isolation, async () => void (ran = true));
      });
      await expect(stale).rejects.toBeInstanceOf(LockFencedError);
      expect(ran).toBe(false);
    });

    it('a stale reader waits for an open writer, and is refused then', async () => {
      const dataSource = await open();
      const [mine, others] = [await start(), await start()];
      await stock.raiseFence(1);
      const [begun, end] = [makeGate(), makeGate()];
      let ran = false;
      const stale = mine.withLock(stock.key, SHARED, async () => {
        await loseKey();
        const written = elsewhere(() =>
          others.withLock(stock.key, () =>
            dataSource.transaction(isolation, async (manager) => {
              await stock.takeOne(manager);
              begun.open();
              await end.opened;
            }),
          ),
        );
        await begun.opened;
        const late = dataSource.transaction(isolation, async () => void (ran = true));
        expect(await isSettled(late)).toBe(false);
        end.open();
        await written;
        await late;
      });
      await expect(stale).rejects.toBeInstanceOf(LockFencedError);
      expect([ran, await stock.quantity()]).toEqual([false, 99]);
    });

    it('a reader waits for the COMMIT of the writer before it, and reads what that has written', async () => {
      const dataSource = await open();
      const [mine, others] = [await start(), await start()];
      await stock.raiseFence(1);
      const [begun, end] = [makeGate(), makeGate()];
      const written = others.withLock(stock.key, () =>
        dataSource.transaction(isolation, async (manager) => {
          await stock.takeOne(manager);
          begun.open();
          await end.opened;
        }),
      );
      await begun.opened;
      await loseKey();
      const next = await reading(mine, dataSource, isolation);
      expect(await isSettled(next.begun)).toBe(false);
      end.open();
      await written;
      await next.end();
      expect(next.seen).toEqual([99, 99]);
    });

    it('a stale writer waits for an open reader, and is ordered after it [G46]', async () => {
      const dataSource = await open();
      const [mine, others] = [await start(), await start()];
      await stock.raiseFence(1);
      await mine.withLock(stock.key, async () => {
        await loseKey();
        const reader = await reading(others, dataSource, isolation);
        await reader.begun;
        const late = dataSource.transaction(isolation, (manager) => stock.takeOne(manager));
        expect(await isSettled(late)).toBe(false);
        await reader.end();
        await late;
        expect(reader.seen).toEqual([100, 100]);
      });
      expect(await stock.quantity()).toBe(99);
    });

    it('the first use of a key ever: the second reader waits for the first, and goes on', async () => {
      const dataSource = await open();
      const [mine, others] = [await start(), await start()];
      const first = await reading(mine, dataSource, isolation);
      await first.begun;
      const second = await reading(others, dataSource, isolation);
      expect(await isSettled(second.begun)).toBe(false);
      await first.end();
      await second.begun;
      await second.end();
      expect([second.seen, await stock.fence()]).toEqual([[100, 100], 0]);
      await write(mine, dataSource);
      expect(await stock.fence()).toBeGreaterThan(0);
    });

    it('many readers use a key for the first time, some of which roll back', async () => {
      const dataSource = await open(12);
      const locks = await Promise.all([start(), start(), start()]);
      let reads = 0;
      const work = Array.from({ length: 12 }, (_, n) =>
        (locks[n % 3] as LockService)
          .withLock(stock.key, SHARED, () =>
            dataSource.transaction(isolation, async (manager) => {
              await read(manager);
              if (n % 4 === 0) throw new Error('changed my mind');
              reads++;
            }),
          )
          .catch((error: Error) => expect(error.message).toBe('changed my mind')),
      );
      await Promise.all(work);
      expect(reads).toBe(9);
    });

    it('new keys of many readers do not wait for each other', async () => {
      const dataSource = await open(12);
      const locks = await start();
      const meet = meeting(12);
      await Promise.all(
        Array.from({ length: 12 }, () =>
          locks.withLock(uniqueKey('report'), SHARED, () =>
            dataSource.transaction(isolation, () => meet()),
          ),
        ),
      );
    });

    it('a long reader of a known key keeps nobody from using new keys', async () => {
      const dataSource = await open();
      const locks = await start();
      const key = uniqueKey('m');
      const readKey = (work: () => Promise<void>) =>
        locks.withLock(key, SHARED, () => dataSource.transaction(isolation, () => work()));
      await readKey(async () => {});
      await readKey(async () => {}); // it is known now
      await readKey(async () => {
        for (const other of [uniqueKey('a'), uniqueKey('l'), `${key}-`, uniqueKey('n')]) {
          await elsewhere(() =>
            locks.withLock(other, { waitMs: 500 }, () =>
              dataSource.transaction(isolation, async () => {}),
            ),
          );
        }
      });
    });

    it('locks of both modes are claimed in one transaction, each in its way', async () => {
      const dataSource = await open();
      const [mine, others] = [await start(), await start()];
      const keys = ['a', 'b', 'c', 'd'].map((name) => uniqueKey(name));
      const [a, b, c, d] = keys as [string, string, string, string];
      for (const key of keys) {
        const sql = type === 'postgres' ? '($1, 7)' : '(?, 7)';
        await database.query(`INSERT INTO lock_fence VALUES ${sql}`, [key]);
      }
      const under = (work: () => Promise<void>) =>
        mine.withLock(a, SHARED, () =>
          mine.withLock([b, c], () => mine.withLock(d, SHARED, () => work())),
        );
      await under(async () => {
        await dataSource.transaction(isolation, async () => {
          const claim = (key: string, options: LockOptions) =>
            elsewhere(() =>
              others.withLock(key, options, () =>
                dataSource.transaction(isolation, async () => {}),
              ),
            );
          await claim(a, SHARED);
          await claim(d, SHARED);
          for (const key of keys) await loseKey(key);
          for (const key of [b, c]) {
            await expect(claim(key, { ...SHARED, waitMs: 300 })).rejects.toThrow(
              /still has the transaction of an earlier holder open/,
            );
          }
        });
      });
      expect(await Promise.all([tokenOf(a), tokenOf(d)])).toEqual([7, 7]);
      expect(Math.min(await tokenOf(b), await tokenOf(c))).toBeGreaterThan(7);
    });
  });

  it('a database that is ahead of Redis raises the number of every reader, and of the next writer', async () => {
    const dataSource = await open();
    const locks = await start();
    const seen = Date.now() * 1_000 + 10_000_000_000;
    await stock.raiseFence(seen);
    const meet = meeting(3);
    const tokens: number[] = [];
    await Promise.all(
      [1, 2, 3].map(() =>
        locks.withLock(stock.key, SHARED, async (lock) => {
          await dataSource.transaction(() => meet());
          tokens.push(lock.fencingToken);
        }),
      ),
    );
    expect(Math.min(...tokens)).toBeGreaterThan(seen);
    expect(await stock.fence()).toBe(seen);
    await locks.withLock(stock.key, async ({ fencingToken }) => {
      expect(fencingToken).toBeGreaterThan(Math.max(...tokens));
      await dataSource.transaction((manager) => stock.takeOne(manager));
    });
    expect(await stock.quantity()).toBe(99);
  });

  it('a reader that was handed the key goes on after a database that is ahead of Redis', async () => {
    const dataSource = await open();
    const [locks, others] = [await start(), await start()];
    const seen = Date.now() * 1_000 + 10_000_000_000;
    await stock.raiseFence(seen);
    const first = await others.acquire(stock.key);
    const reading = locks.withLock(stock.key, SHARED, async (lock) => {
      await dataSource.transaction(read);
      return lock.fencingToken;
    });
    await eventually(async () => expect((await others.inspect(stock.key))?.waiters).toBe(1));
    await first.release();
    expect(await reading).toBeGreaterThan(seen);
  });

  it('a reader whose maxHoldMs is over does not commit, and its neighbours on the same lease do', async () => {
    const dataSource = await open();
    const locks = await start({ leaseMs: 2_000 });
    await stock.raiseFence(1);
    const slow = await reading(locks, dataSource, 'READ COMMITTED', { maxHoldMs: 400 });
    const sound = await reading(locks, dataSource);
    await Promise.all([slow.begun, sound.begun].map((begun) => begun.catch(() => {})));
    await sleep(600);
    await expect(slow.end()).rejects.toBeInstanceOf(LockLostError);
    await sound.end();
    expect(sound.seen).toEqual([100, 100]);
  });

  it('a second transaction inside that of a reader is refused, as it is for a writer', async () => {
    const dataSource = await open();
    const locks = await start();
    const nest = (): Promise<void> =>
      locks.withLock(stock.key, SHARED, () =>
        dataSource.transaction(() => dataSource.transaction(async () => {})),
      );
    await expect(nest()).rejects.toBeInstanceOf(LockInTransactionError);
    await stock.raiseFence(1);
    await expect(nest()).rejects.toBeInstanceOf(LockInTransactionError); // also if it would not wait
  });

  it.each(['reject', 'restart', 'join'] as const)(
    'a reader inside its transaction, under %s',
    async (insideTransaction) => {
      const dataSource = await open();
      const [mine, others] = [await start({ insideTransaction }), await start()];
      await stock.raiseFence(1);
      const meet = meeting(2);
      const readInside = (locks: LockService) =>
        dataSource.transaction('READ COMMITTED', (manager) =>
          locks.withLock(stock.key, SHARED, async () => {
            expect(await read(manager)).toBe(100);
            await meet();
          }),
        );
      if (insideTransaction === 'reject') {
        await expect(readInside(mine)).rejects.toBeInstanceOf(LockInTransactionError);
        return;
      }
      if (insideTransaction === 'join' && type === 'mysql') return; // its level is not known
      await Promise.all([
        readInside(mine),
        others.withLock(stock.key, SHARED, () => dataSource.transaction(() => meet())),
      ]);
      expect(await stock.fence()).toBe(1);
    },
  );

  it('a lease that is lost under several readers ends all their transactions', async () => {
    const dataSource = await open();
    const locks = await start({ leaseMs: 600 });
    await stock.raiseFence(1);
    const readers = [await reading(locks, dataSource), await reading(locks, dataSource)];
    await Promise.all(readers.map(({ begun }) => begun.catch(() => {})));
    await loseKey();
    await sleep(500); // the renewal has noticed it
    for (const { end } of readers) await expect(end()).rejects.toBeInstanceOf(LockLostError);
  });
}

describe('claims of readers on PostgreSQL', () => {
  claimsOfReaders('postgres', usePostgres);
});
describeWithMariaDb('claims of readers on MariaDB', () => {
  claimsOfReaders('mysql', useMariaDb);
});
describeWithMySql('claims of readers on MySQL', () => {
  claimsOfReaders('mysql', useMySql);
});

describe('a reader in a read-only transaction', () => {
  const redis = useRedis();

  describe('on PostgreSQL', () => {
    const postgres = usePostgres();
    const stock = useStock(postgres);
    const sql = 'SELECT quantity FROM stock WHERE id = $1';

    const openReadOnly = async (): Promise<DataSource> => {
      const extra = { options: '-c default_transaction_read_only=on' } as never;
      return lockAwareDataSource(await openDataSource('postgres', postgres.settings, 4, { extra }));
    };
    const start = async (): Promise<LockService> =>
      (await startLocks(redis.url, { fence: true })).locks;
    /** The idle time-out of its transaction, which is that of the lock. */
    const idleIn = async (tx: Runs): Promise<unknown> => {
      const name = 'idle_in_transaction_session_timeout';
      const rows = (await tx.query(`SELECT current_setting('${name}') AS idle`, [])) as object[];
      return rows[0];
    };

    it.each(['with a callback', 'by hand'])(
      'does not claim, has its time-outs, and its body runs once: %s',
      async (how) => {
        const dataSource = await openReadOnly();
        const locks = await start();
        let runs = 0;
        const body = async (manager: Runs): Promise<void> => {
          runs++;
          expect(await manager.query(sql, [stock.product])).toEqual([{ quantity: 100 }]);
          expect(await idleIn(manager)).toEqual({ idle: '8s' });
        };
        const byHand = async (): Promise<void> => {
          const runner = dataSource.createQueryRunner();
          await runner.startTransaction();
          await body(runner);
          await runner.commitTransaction();
          await runner.release();
        };
        const once = (): Promise<void> =>
          locks.withLock(stock.key, SHARED, () =>
            how === 'by hand' ? byHand() : dataSource.transaction(body),
          );
        await once();
        await once();
        expect([runs, await stock.fence()]).toEqual([2, NaN]);
      },
    );

    it('passes the gate only if its lock is held', async () => {
      const dataSource = await openReadOnly();
      const locks = await start();
      const read = locks.withLock(stock.key, { ...SHARED, maxHoldMs: 300 }, () =>
        dataSource.transaction(() => sleep(500)),
      );
      await expect(read).rejects.toBeInstanceOf(LockLostError);
    });

    it('does not keep the others of its database from claiming, whichever comes first', async () => {
      const pool = new pg.Pool({ connectionString: postgres.url });
      afterTest(() => pool.end());
      const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
      const read = (begin: string, work: (client: pg.PoolClient) => Promise<void>) =>
        run(async (wrap) => {
          const client = await pool.connect();
          try {
            await client.query(begin);
            await wrap(client, () => work(client));
            await client.query('COMMIT');
          } catch (error) {
            await client.query('ROLLBACK');
            throw error;
          } finally {
            client.release();
          }
        });
      const [locks, others] = [await start(), await start()];
      const kinds = ['BEGIN', 'BEGIN READ ONLY', 'BEGIN', 'BEGIN READ ONLY', 'BEGIN'];
      for (const begin of kinds) {
        let ran = false;
        const stale = locks.withLock(stock.key, SHARED, async () => {
          await openAdmin(redis.url).del(`lock:{${stock.key}}`);
          await elsewhere(() =>
            others.withLock(stock.key, () => read('BEGIN', (tx) => takeOne(tx, stock))),
          );
          await read(begin, async () => void (ran = true));
        });
        if (begin === 'BEGIN') await expect(stale).rejects.toBeInstanceOf(LockFencedError);
        else await stale;
        expect(ran).toBe(begin !== 'BEGIN');
      }
    });

    it('does not go on if it also has to claim as a writer', async () => {
      const dataSource = await openReadOnly();
      const locks = await start();
      for (const key of [uniqueKey('a'), uniqueKey('z')]) {
        const read = locks.withLock(key, SHARED, () =>
          locks.withLock(uniqueKey('m'), () => dataSource.transaction(async () => {})),
        );
        await expect(read).rejects.toBeInstanceOf(LockConfigError);
        await expect(read).rejects.toThrow(/read-only transaction/);
      }
    });

    it('of a user without rights on the table fails with the statement that grants them', async () => {
      const user = uniqueKey('reader').replace('-', '_');
      await postgres.query(`CREATE USER ${user} PASSWORD 'secret'`);
      await postgres.query(`GRANT SELECT, INSERT ON lock_fence TO ${user}`);
      const settings = { ...postgres.settings, user, password: 'secret' };
      const dataSource = lockAwareDataSource(await openDataSource('postgres', settings));
      const locks = await start();
      const read = () =>
        locks.withLock(stock.key, SHARED, () => dataSource.transaction(async () => {}));
      await expect(read()).rejects.toThrow(/GRANT SELECT, INSERT, UPDATE ON lock_fence/);
      await postgres.query(`GRANT UPDATE ON lock_fence TO ${user}`);
      await read();
    });
  });

  describeWithMariaDb('on MariaDB', () => {
    const mariaDb = useMariaDb();
    const stock = useStock(mariaDb, 'mysql');

    it('does not claim a key that has no row', async () => {
      const pool = createPool(mariaDb.url);
      afterTest(() => pool.end());
      const transaction = mysql2Transactions(pool);
      const { locks } = await startLocks(redis.url, { fence: true });
      const before = ['SET TRANSACTION READ ONLY'];
      const read = (): Promise<unknown> =>
        locks.withLock(stock.key, SHARED, () =>
          transaction((client) => client.query('SELECT 1'), { before }),
        );
      await read();
      expect(await stock.fence()).toBeNaN();
      await locks.withLock(stock.key, SHARED, () =>
        transaction((client) => client.query('SELECT 1')),
      );
      await read(); // the row is known now
      expect(await stock.fence()).toBe(0);
    });
  });
});

describe('a COMMIT of a reader whose outcome is not known', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);
  beforeAll(() => createSlowCommitTable(postgres));
  beforeEach(() => stock.raiseFence(1));

  const leftMs = (): Promise<number> => openAdmin(redis.url).pttl(`lock:{${stock.key}}`);

  const start = async (options: object) => {
    const pool = new pg.Pool({ connectionString: postgres.url });
    pool.on('error', () => {});
    afterTest(() => pool.end());
    const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
    const transaction = (work: (client: pg.PoolClient) => Promise<void>): Promise<void> =>
      run((wrap) => inPgTransaction(pool, (client) => wrap(client, () => work(client))));
    const more = { fence: true, transactionTimeouts: false, ...options };
    const { locks } = await startLocks(redis.url, more);
    const { locks: others } = await startLocks(redis.url, more);
    /** A reader that reads on until it is told to end. */
    const neighbour = () => {
      const [begun, mayEnd] = [makeGate(), makeGate()];
      afterTest(() => mayEnd.open());
      const done = locks.withLock(stock.key, SHARED, () =>
        transaction(async () => {
          begun.open();
          await mayEnd.opened;
        }),
      );
      done.catch(() => {});
      const end = (): Promise<void> => {
        mayEnd.open();
        return done;
      };
      return { begun: Promise.race([begun.opened, done]), end };
    };
    const insertSlowly = () =>
      transaction(async (tx) => void (await tx.query('INSERT INTO slow VALUES (1)')));
    return { locks, others, transaction, neighbour, insertSlowly };
  };

  it('ends nothing for its neighbours, and keeps writers out until the lease has ended', async () => {
    const { locks, others, transaction, neighbour, insertSlowly } = await start({
      leaseMs: 2_000,
      waitMs: 20_000,
    });
    const reader = neighbour();
    await reader.begun;
    const doubtful = locks.withLock(stock.key, SHARED, async () => {
      const refused = expect(insertSlowly()).rejects.toBeInstanceOf(LockCommitUnknownError);
      await killCommits(postgres);
      await refused;
      await transaction(async () => {}); // refused as well
    });
    await expect(doubtful).rejects.toBeInstanceOf(LockCommitUnknownError);
    await sleep(2_500); // the neighbour needs the lease, which is renewed
    expect(await leftMs()).toBeGreaterThan(0);
    await reader.end();
    const left = await leftMs();
    expect(left).toBeGreaterThan(0); // it is not released
    const from = performance.now();
    await others.withLock(stock.key, () => transaction((tx) => takeOne(tx, stock)));
    expect(performance.now() - from).toBeGreaterThan(left - 200);
    expect(await stock.quantity()).toBe(99);
  });

  it('is told after a lease and a third, although neighbours keep the lease', async () => {
    const { locks, neighbour, insertSlowly } = await start({ leaseMs: 600, waitMs: 20_000 });
    const reader = neighbour();
    await reader.begun;
    const from = performance.now();
    const doubtful = locks.withLock(stock.key, SHARED, insertSlowly);
    await whenCommitting(postgres);
    await expect(doubtful).rejects.toBeInstanceOf(LockCommitUnknownError);
    expect(performance.now() - from).toBeLessThan(1_700);
    await reader.end();
  });

  it('of one reader that is only late takes no new reader in, and releases the key when it came', async () => {
    const { locks, others, neighbour, transaction, insertSlowly } = await start({
      leaseMs: 4_000,
      waitMs: 20_000,
    });
    const reader = neighbour();
    await reader.begun;
    const late = locks.withLock(stock.key, SHARED, insertSlowly);
    await whenCommitting(postgres);
    const written = others.withLock(stock.key, () => transaction((tx) => takeOne(tx, stock)));
    await sleep(1_500);
    await reader.end();
    await late;
    await written;
    await eventually(async () => expect(await leftMs()).toBe(-2));
    expect(await stock.quantity()).toBe(99);
  });
});
