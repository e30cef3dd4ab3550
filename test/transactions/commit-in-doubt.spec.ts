import { beforeAll, describe, expect, it, jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { findMariaDbPrograms, MariaDbServer } from 'dev-servers';
import { createConnection } from 'mysql2/promise';
import {
  LockCommitUnknownError,
  LockInTransactionError,
  LockLostError,
  type LockOptions,
  type LockService,
} from 'nestjs-locked';
import { lockAwareTransactions, unfenced } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import pg from 'pg';
import type { DataSource, EntitySubscriberInterface, QueryRunner } from 'typeorm';
import { type EventEmitter, once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { Hold } from '../../libs/nestjs-locked/src/core/queue/hold.js';
import { systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import { CommitWait } from '../../libs/nestjs-locked/src/transactions/scope/commit-wait.js';
import { afterTest } from '../support/after-test.js';
import { type TestDatabase, useMariaDb, usePostgres } from '../support/databases.js';
import { describeIf, describeWithMariaDb } from '../support/describe-if.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { openAdmin } from '../support/open-locks.js';
import { PostgresProxy } from '../support/postgres-proxy.js';
import { useRedis } from '../support/shared-redis.js';
import { standStill } from '../support/stand-still.js';
import { uniqueKey } from '../support/unique-key.js';
import { openDataSource } from './data-source.js';
import { isHeld, type StartedLocks, startLocks } from './locks.js';
import { byHand, withCallback } from './opened-transaction.js';
import { transactionsOf } from './recipes/node-postgres.js';
import { createSlowCommitTable, killCommits, whenCommitting } from './slow-commit.js';
import { type Stock, useStock } from './stock.js';

describe('a COMMIT that was not answered', () => {
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
    /** Makes a sale whose COMMIT is not answered. */
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

    it('inside a transaction that fails on its own does not replace its error', async () => {
      const { locks, sell, sellInDoubt } = await start(LEASE);
      const around = locks.withLock(stock.key, () =>
        sell(async () => {
          await sellInDoubt();
          throw new Error('the customer has no money');
        }),
      );
      await expect(around).rejects.toThrow('the customer has no money');
    });

    it('does not follow from a serialization failure, after which the work may be repeated', async () => {
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
        await sleep(50); // the call is queued
        await sellInDoubt();
      });
      const leftMs = await leftOf(stock.key);
      const from = performance.now();
      expect([entered, leftMs > 0]).toEqual([false, true]);
      await next;
      expect(performance.now() - from).toBeGreaterThan(leftMs - 100);
      expect(tokens[1]).not.toBe(tokens[0]);
    });

    it('is not forgotten if a refusal was swallowed, or without the fence', async () => {
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

    it('is claimed there, and an audit row can be written beside it with `unfenced`', async () => {
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

    it('is not claimed in a transaction without the fence, and is still kept', async () => {
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

  /** Creates a table: a transaction that has written to it fails at its COMMIT with a serialization failure. */
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
});

describe('the wait before a COMMIT', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);
  beforeAll(() => createSlowCommitTable(postgres));

  const leftOf = (key: string): Promise<number> => openAdmin(redis.url).pttl(`lock:{${key}}`);

  /** The COMMIT takes longer than a third of the lease, but less than the whole lease. */
  const LEASE = { leaseMs: 10_000, waitMs: 30_000, transactionTimeouts: false } as const;

  const start = async (shutdownMs = 10_000) => {
    const pool = new pg.Pool({ connectionString: postgres.url });
    pool.on('error', () => {});
    afterTest(() => pool.end());
    const sell = transactionsOf(pool);
    const mine = await startLocks(redis.url, { ...LEASE, shutdownMs });
    const others = await startLocks(redis.url, LEASE);
    /** Makes a sale whose COMMIT takes four seconds: two for each row. */
    const sellSlowly = (options: LockOptions = {}) => {
      let signal: AbortSignal | undefined;
      const sale = mine.locks.withLock(stock.key, options, (lock) => {
        signal = lock.signal;
        return sell(async (tx) => {
          await takeOne(tx);
          await tx.query('INSERT INTO slow VALUES (1), (2)');
        });
      });
      sale.catch(() => {});
      return { sale, isLost: () => signal?.aborted };
    };
    const sellElsewhere = (): Promise<number> =>
      others.locks.withLock(stock.key, () => sell((tx) => takeOne(tx)));
    return { mine, sellSlowly, sellElsewhere };
  };

  /** Reads, then writes: without the lock, concurrent calls lose an update. @returns the quantity before */
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
      ['because its maxHoldMs has passed', { maxHoldMs: 3_000 }, () => undefined],
    ];

    it.each(losses)(
      '%s may continue as long as the lease lasts in Redis',
      async (_, options, lose) => {
        const { mine, sellSlowly, sellElsewhere } = await start(300);
        const { sale, isLost } = sellSlowly(options);
        await whenCommitting(postgres);
        const next = sellElsewhere();
        await lose(mine);
        await eventually(() => expect(isLost()).toBe(true));
        expect(await leftOf(stock.key)).toBeGreaterThan(0);
        await whenCommitting(postgres); // the COMMIT is still running
        await sale;
        expect(await next).toBe(99);
        expect(await stock.quantity()).toBe(98);
      },
    );

    it('and then in doubt is logged with the remaining time of the lease in Redis', async () => {
      const logged = jest.spyOn(Logger.prototype, 'error').mockImplementation(() => {});
      afterTest(() => logged.mockRestore());
      const { mine, sellSlowly } = await start(300);
      const { sale, isLost } = sellSlowly();
      await whenCommitting(postgres);
      await mine.app.close();
      expect(isLost()).toBe(true);
      const leftMs = await leftOf(stock.key);
      await killCommits(postgres);
      await expect(sale).rejects.toBeInstanceOf(LockCommitUnknownError);
      const stillMs = await leftOf(stock.key);
      const messages = logged.mock.calls.map(([message]) => String(message));
      const told = messages.flatMap((text) => /expires within (\d+) ms/.exec(text)?.[1] ?? []);
      expect(told).toHaveLength(1);
      expect(stillMs).toBeGreaterThan(0);
      expect(Number(told[0])).toBeLessThanOrEqual(leftMs + 50);
      expect(Number(told[0])).toBeGreaterThanOrEqual(stillMs - 200); // allows for clock drift
    });
  });
});

describe('a COMMIT while the process stands still', () => {
  const LEASE_MS = 30;

  /** A lease that begins now and is not renewed. */
  function leaseFromNow(): Hold {
    const until = performance.now() + LEASE_MS;
    const hold = {
      options: { leaseMs: LEASE_MS },
      leaseLeftMs: () => Math.max(0, until - performance.now()),
      commitIsLate: () => {},
      commitCame: () => {},
    };
    return hold as unknown as Hold;
  }

  /** Opens a connection. @returns both of its ends */
  async function connection(): Promise<readonly [client: Socket, server: Socket]> {
    const server = createServer();
    afterTest(() => void server.close());
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const accepted = once(server, 'connection') as Promise<[Socket]>;
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
    const [[own]] = await Promise.all([accepted, once(client, 'connect')]);
    for (const end of [client, own]) afterTest(() => void end.destroy());
    return [client, own];
  }

  describe('the wait for the answer to a COMMIT', () => {
    /** Blocks the process until the lease is over. @returns what was reported */
    const outcome = async (answer: (server: Socket) => void): Promise<readonly string[]> => {
      const [client, server] = await connection();
      const told: string[] = [];
      const hold = leaseFromNow();
      const wait = new CommitWait(
        () => [hold],
        () => told.push('overdue'),
      );
      client.on('data', () => {
        told.push('answered');
        wait.end();
      });
      await nextTurn(); // due timers must run before sockets are read
      wait.begin();
      answer(server);
      standStill(10 * LEASE_MS);
      await eventually(() => expect(told).not.toEqual([]));
      await nextTurn();
      return told;
    };

    it('is not over while the answer is unread because the process has stood still', async () => {
      expect(await outcome((server) => server.write('COMMIT'))).toEqual(['answered']);
    });

    it('ends with the lease if there is no answer', async () => {
      expect(await outcome(() => {})).toEqual(['overdue']);
    });

    it('is late after a third of the lease, so that it is not renewed until the answer comes', async () => {
      const told: string[] = [];
      const hold = {
        ...leaseFromNow(),
        options: { leaseMs: 600 },
        leaseLeftMs: () => 600, // as if it were renewed constantly
        commitIsLate: () => told.push('late'),
      } as unknown as Hold;
      const wait = new CommitWait(
        () => [hold],
        () => {},
      );
      systemClock.after(400, () => told.push('two thirds'));
      wait.begin();
      await eventually(() => expect(told).toContain('two thirds'));
      wait.end();
      expect(told).toEqual(['late', 'two thirds']);
    });
  });
});

describe('a COMMIT that was not sent', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  async function start(
    subscriber: EntitySubscriberInterface,
    type: 'postgres' | 'mysql' = 'postgres',
    database: TestDatabase = postgres,
    poolSize?: number,
  ) {
    const dataSource = lockAwareDataSource(await openDataSource(type, database.settings, poolSize));
    const { locks } = await startLocks(redis.url, { fence: true });
    dataSource.subscribers.push(subscriber);
    return { dataSource, locks };
  }

  /** Whether the lock is held, and the remaining quantity. */
  const state = async (of = stock): Promise<unknown> => [
    await isHeld(redis.url, of.key),
    await of.quantity(),
  ];

  /** Closes the connection on the client side. */
  const close = async ({ queryRunner }: { queryRunner: QueryRunner }): Promise<void> => {
    const client = (await queryRunner.connect()) as { end: () => Promise<void> };
    void client.end();
  };

  /** Terminates the connection on the server, as an idle time-out does. */
  async function disconnect({ queryRunner }: { queryRunner: QueryRunner }): Promise<void> {
    const [row] = (await queryRunner.query('SELECT pg_backend_pid() AS pid')) as { pid: number }[];
    await postgres.query('SELECT pg_terminate_backend($1::int)', [row?.pid]);
    await eventually(() => expect(queryRunner.isReleased).toBe(true));
  }

  const sellByHand = async (dataSource: DataSource, from = stock): Promise<void> => {
    const runner = dataSource.createQueryRunner();
    try {
      await runner.startTransaction();
      await from.takeOne(runner);
      await runner.commitTransaction();
    } finally {
      await runner.release();
    }
  };

  const FORMS = [
    [
      'with a callback',
      (dataSource: DataSource, from = stock) =>
        dataSource.transaction((manager) => from.takeOne(manager)),
    ],
    ['by hand', sellByHand],
  ] as const;

  /** The last hook before the COMMIT reaches the connection. */
  const beforeCommit = (
    hook: (event: { queryRunner: QueryRunner }) => Promise<void>,
  ): EntitySubscriberInterface => ({
    beforeQuery: (event) => (event.query === 'COMMIT' ? hook(event) : undefined),
  });

  describe('a COMMIT that was not sent is not in doubt', () => {
    it.each(FORMS)('because a hook before it lost the connection: %s', async (_, sell) => {
      const { dataSource, locks } = await start({ beforeTransactionCommit: disconnect });
      const sale = locks.withLock(stock.key, () => sell(dataSource));
      await expect(sale).rejects.toThrow(/already released/);
      await expect(sale).rejects.not.toBeInstanceOf(LockCommitUnknownError);
      expect(await state()).toEqual([false, 100]);
    });

    it.each(FORMS)('because beforeQuery lost the connection: %s', async (_, sell) => {
      const { dataSource, locks } = await start(beforeCommit(disconnect));
      const sale = locks.withLock(stock.key, () => sell(dataSource));
      await expect(sale).rejects.toThrow(/not queryable/);
      await expect(sale).rejects.not.toBeInstanceOf(LockCommitUnknownError);
      expect(await state()).toEqual([false, 100]);
    });

    it.each(FORMS)('because beforeQuery closes the connection: %s', async (_, sell) => {
      const { dataSource, locks } = await start(beforeCommit(close));
      const sale = locks.withLock(stock.key, () => sell(dataSource));
      await expect(sale).rejects.toThrow(/not queryable/);
      await expect(sale).rejects.not.toBeInstanceOf(LockCommitUnknownError);
      expect(await state()).toEqual([false, 100]);
    });

    it.each(FORMS)('and that of the next user of its connection is sent: %s', async (_, sell) => {
      const [begun, asked] = [makeGate(), makeGate()];
      let calls = 0;
      const giveBack = async ({ queryRunner }: { queryRunner: QueryRunner }): Promise<void> => {
        if (calls++ > 0) return; // the COMMIT of the next transaction
        begun.open();
        await asked.opened;
        await queryRunner.release();
        await next;
      };
      const { dataSource, locks } = await start(beforeCommit(giveBack), 'postgres', postgres, 1);
      const sale = locks.withLock(stock.key, () => sell(dataSource));
      await begun.opened;
      const next = dataSource.transaction((manager) => stock.takeOne(manager)); // waits for the connection
      asked.open();
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      await next;
      expect(await state()).toEqual([false, 99]);
    });

    it.each(FORMS)('and does not commit the writes of its next user: %s', async (_, sell) => {
      const [begun, asked, wrote, end] = [makeGate(), makeGate(), makeGate(), makeGate()];
      const giveBack = async ({ queryRunner }: { queryRunner: QueryRunner }): Promise<void> => {
        begun.open();
        await asked.opened;
        await queryRunner.release();
        await wrote.opened;
      };
      const { dataSource, locks } = await start(beforeCommit(giveBack), 'postgres', postgres, 1);
      const sale = locks.withLock(stock.key, () => sell(dataSource));
      await begun.opened;
      const next = dataSource.transaction(async (manager) => {
        await stock.takeOne(manager);
        wrote.open();
        await end.opened;
        throw new Error('changed my mind');
      });
      asked.open();
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      end.open();
      await expect(next).rejects.toThrow('changed my mind');
      expect(await state()).toEqual([false, 100]);
    });

    it.each(FORMS)('because beforeQuery released the connection: %s', async (_, sell) => {
      const { dataSource, locks } = await start(
        beforeCommit(({ queryRunner }) => queryRunner.release()),
      );
      const sale = locks.withLock(stock.key, () => sell(dataSource));
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      expect(await state()).toEqual([false, 100]);
    });

    it.each([
      ['before it', 'beforeTransactionCommit', 'refused', 100],
      ['after its answer', 'afterTransactionCommit', 'done', 99],
    ] as const)(
      'because the query runner was released in a hook %s',
      async (_, hook, told, quantity) => {
        const [begun, end] = [makeGate(), makeGate()];
        const { dataSource, locks } = await start({
          [hook]: async () => {
            begun.open();
            await end.opened;
          },
        });
        const runner = dataSource.createQueryRunner();
        await locks.withLock(stock.key, async () => {
          await runner.startTransaction();
          await stock.takeOne(runner);
          const committing = runner.commitTransaction().then(
            () => 'done',
            () => 'refused',
          );
          await begun.opened;
          await runner.release();
          end.open();
          expect(await committing).toBe(told);
        });
        expect(await state()).toEqual([false, quantity]);
      },
    );
  });

  function describeHooks(type: 'postgres' | 'mysql', database: TestDatabase, shop: Stock): void {
    describe.each(FORMS)('while beforeQuery runs, the COMMIT is not sent: %s', (_, sell) => {
      it('and if that throws, the transaction is rolled back', async () => {
        const fail = (): Promise<never> => Promise.reject(new Error('not now'));
        const { dataSource, locks } = await start(beforeCommit(fail), type, database);
        const sale = locks.withLock(shop.key, () => sell(dataSource, shop));
        await expect(sale).rejects.toThrow('not now');
        expect(await state(shop)).toEqual([false, 100]);
      });

      it.each(FORMS)('so that a second transaction there is refused: %s', async (__, sellAgain) => {
        let calls = 0;
        let inHook: unknown;
        const second = async (): Promise<void> => {
          if (++calls > 1) return;
          inHook = await sellAgain(dataSource, shop).catch((error: unknown) => error);
        };
        const { dataSource, locks } = await start(beforeCommit(second), type, database);
        await locks.withLock(shop.key, () => sell(dataSource, shop));
        expect(inHook).toBeInstanceOf(LockInTransactionError);
        expect(await state(shop)).toEqual([false, 99]);
      });
    });
  }

  it('after a COMMIT that was refused because a hook lost the lock, a branch of the body writes nothing', async () => {
    const { dataSource, locks } = await start({
      beforeTransactionCommit: async () => {
        const lock = locks.current(stock.key);
        await locks.forceRelease(stock.key);
        await eventually(() => expect(lock?.isHeld).toBe(false));
      },
      afterTransactionRollback: () => sleep(200),
    });
    let branch: Promise<void> | undefined;
    let tries = 0;
    const sale = locks.withLock(stock.key, () =>
      dataSource.transaction(async (manager) => {
        await stock.takeOne(manager);
        branch = (async () => {
          const endsAt = performance.now() + 500;
          while (performance.now() < endsAt) {
            await stock.takeOne(manager, 0).catch(() => tries++);
            await sleep(10);
          }
        })();
      }),
    );
    await expect(sale).rejects.toBeInstanceOf(LockLostError);
    await branch;
    expect(tries).toBeGreaterThan(10);
    expect(await stock.quantity()).toBe(100);
  });

  describeHooks('postgres', postgres, stock);

  describeWithMariaDb('on MariaDB', () => {
    const mariaDb = useMariaDb();
    const shop = useStock(mariaDb, 'mysql');
    describeHooks('mysql', mariaDb, shop);

    it.each(FORMS)(
      'a COMMIT whose connection is lost in beforeQuery is not sent: %s',
      async (_, sell) => {
        const disconnected = async ({
          queryRunner,
        }: {
          queryRunner: QueryRunner;
        }): Promise<void> => {
          const [row] = (await queryRunner.query('SELECT CONNECTION_ID() AS id')) as {
            id: number;
          }[];
          const ended = new Promise((resolve) => {
            void queryRunner
              .connect()
              .then((connection: EventEmitter) => connection.once('error', resolve));
          });
          await mariaDb.query(`KILL ${Number(row?.id)}`);
          await ended;
        };
        const { dataSource, locks } = await start(beforeCommit(disconnected), 'mysql', mariaDb);
        const sale = locks.withLock(shop.key, () => sell(dataSource, shop));
        await expect(sale).rejects.toThrow(/closed state/);
        await expect(sale).rejects.not.toBeInstanceOf(LockCommitUnknownError);
        expect(await state(shop)).toEqual([false, 100]);
      },
    );
  });
});

describe('a COMMIT that the server refuses', () => {
  const redis = useRedis();

  /** Uses its own server, because the test makes it read-only. */
  const describeWithOwnMariaDb = describeIf(findMariaDbPrograms() !== undefined, 'no MariaDB');

  /** Starts a server for the current test, and creates a user who cannot write while the server is read-only. */
  async function startServer() {
    const server = await MariaDbServer.start();
    afterTest(() => server.stop());
    const admin = await createConnection(server.url);
    afterTest(() => admin.end());
    for (const sql of [
      'CREATE DATABASE shop',
      'CREATE TABLE shop.sales (id int PRIMARY KEY)',
      "CREATE USER seller@'%' IDENTIFIED BY 'secret'",
      "GRANT ALL ON shop.* TO seller@'%'",
    ]) {
      await admin.query(sql);
    }
    const user = { user: 'seller', password: 'secret', database: 'shop' };
    return { admin, settings: { host: '127.0.0.1', port: server.port, ...user } };
  }

  describeWithOwnMariaDb('a server that becomes read-only before the COMMIT', () => {
    it.each([
      ['with a callback', withCallback],
      ['by hand', byHand()],
    ])(
      'has rolled back, so that nothing is in doubt: %s',
      async (_, open) => {
        const { admin, settings } = await startServer();
        const dataSource = lockAwareDataSource(await openDataSource('mysql', settings, 1));
        const { locks } = await startLocks(redis.url);
        const sale = locks.withLock('sales', () =>
          open(dataSource, async (runner) => {
            await runner.query('INSERT INTO sales VALUES (1)');
            await admin.query('SET GLOBAL read_only = 1');
          }),
        );
        await expect(sale).rejects.toHaveProperty('driverError.errno', 1290);
        expect(await isHeld(redis.url, 'sales')).toBe(false);
        await admin.query('SET GLOBAL read_only = 0');
        await dataSource.transaction((manager) => manager.query('SELECT 1')); // would commit what was left open
        expect(await dataSource.query('SELECT id FROM sales')).toEqual([]);
      },
      90_000,
    );
  });
});
