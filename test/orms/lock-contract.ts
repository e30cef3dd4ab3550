import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  LockCommitUnknownError,
  LockFencedError,
  LockInTransactionError,
  LockLostError,
  type LockService,
} from 'nestjs-locked';
import pg from 'pg';
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { openAdmin } from '../support/open-locks.js';
import { PostgresProxy } from '../support/postgres-proxy.js';
import { useRedis } from '../support/shared-redis.js';
import { standStill } from '../support/stand-still.js';
import { uniqueKey } from '../support/unique-key.js';
import { beforeCommit } from '../transactions/before-commit.js';
import { giveAway, isHeld, startLocks } from '../transactions/locks.js';
import { createSlowCommitTable, killCommits, whenCommitting } from '../transactions/slow-commit.js';
import { type Runs, useStock } from '../transactions/stock.js';
import type { Isolation, OpenedOrm, OrmUnderTest } from './orm-under-test.js';

const ISOLATIONS = ['read committed', 'repeatable read', 'serializable'] as const;

interface LockCosts {
  /** How many round trips the fence and the time-outs add to a transaction. */
  readonly roundTrips: number;
}

/** What every way to open transactions on PostgreSQL must guarantee under locks. */
export function describeLockContract(orm: OrmUnderTest, costs: LockCosts): void {
  describe(orm.name, () => {
    contract(orm);
    describe('a transaction after the first ones', () => laterTransactions(orm, costs));
    if (orm.timesOut !== false) {
      describe('a connection whose ROLLBACK was not answered', () => unansweredRollbacks(orm));
      describe('a connection whose COMMIT was refused', () => refusedCommits(orm));
    }
  });
}

function contract({ open, survivesDisconnect = true }: OrmUnderTest): void {
  let orm: OpenedOrm;
  afterAll(() => orm.close()); // declared before the hook that drops the database
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  beforeAll(async () => {
    await createSlowCommitTable(postgres);
    await postgres.query('CREATE TABLE strict (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)');
    orm = await open(postgres.url);
  });

  const transaction: OpenedOrm['transaction'] = (body, isolation) =>
    orm.transaction(body, isolation);
  const held = (): Promise<boolean> => isHeld(redis.url, stock.key);
  const start: (options?: Parameters<typeof startLocks>[1]) => ReturnType<typeof startLocks> = (
    options,
  ) => startLocks(redis.url, options);
  /** Opens a connection outside the transaction under test. */
  const openRival = async (): Promise<pg.Client> => {
    const rival = new pg.Client({ connectionString: postgres.url });
    await rival.connect();
    afterTest(() => rival.end());
    return rival;
  };

  describe('a lock around a transaction', () => {
    it('is taken before BEGIN, and released after COMMIT was answered', async () => {
      const { locks } = await start();
      const [taken, end] = [makeGate(), makeGate()];
      let sale: Promise<void> | undefined;
      await locks.withLock(stock.key, async () => {
        expect(await held()).toBe(true);
        sale = transaction(async (tx) => {
          await stock.takeOne(tx);
          await tx.query('INSERT INTO slow VALUES (1)', []);
          taken.open();
          await end.opened;
        });
        await taken.opened;
      });
      expect([await held(), await stock.quantity()]).toEqual([true, 100]);
      const next = locks.withLock(stock.key, { reentrant: false }, () => stock.quantity());
      end.open();
      await whenCommitting(postgres);
      expect(await held()).toBe(true);
      expect(await next).toBe(99);
      await sale;
      await eventually(async () => expect(await held()).toBe(false));
    });

    it.each(ISOLATIONS)('loses no update at %s', async (isolation) => {
      const { locks } = await start({ fence: {} });
      await Promise.all(
        Array.from({ length: 8 }, () =>
          locks.withLock(stock.key, () => transaction((tx) => stock.takeOne(tx, 1), isolation)),
        ),
      );
      expect([await held(), await stock.quantity()]).toEqual([false, 92]);
    });

    it('is claimed with the time-outs, before the body runs', async () => {
      const { locks } = await start({ fence: {} });
      await locks.withLock(stock.key, async ({ fencingToken }) => {
        await transaction(async (tx) => {
          const [row] = (await tx.query(
            `SELECT token, current_setting('statement_timeout') AS statement,
             current_setting('idle_in_transaction_session_timeout') AS idle
             FROM lock_fence WHERE lock_key = $1`,
            [stock.key],
          )) as { token: string | number; statement: string; idle: string }[];
          expect(Number(row?.token)).toBe(fencingToken);
          expect([row?.statement, row?.idle]).toEqual(['10s', survivesDisconnect ? '8s' : '0']);
        });
        expect(await stock.fence()).toBe(fencingToken);
      });
    });

    it.each(['exclusive', 'shared'] as const)(
      'runs no body after a newer holder: %s',
      async (mode) => {
        const { locks } = await start({ fence: {} });
        let ran = false;
        const sale = locks.withLock(stock.key, { mode }, async ({ fencingToken }) => {
          await giveAway(redis.url, stock.key);
          await stock.raiseFence(fencingToken + 10_000_000);
          await transaction(async () => void (ran = true));
        });
        await expect(sale).rejects.toBeInstanceOf(LockFencedError);
        await expect(sale).rejects.toThrow('nothing was written; run the call again');
        expect(ran).toBe(false);
      },
    );

    it.each(['repeatable read', 'serializable'] as const)(
      'restarts at %s if another claim came in between [D85]',
      async (isolation: Isolation) => {
        const { locks } = await start({ fence: {} });
        const rival = await openRival();
        await stock.raiseFence(1);
        await rival.query('BEGIN');
        await rival.query('UPDATE lock_fence SET token = 2 WHERE lock_key = $1', [stock.key]);
        let runs = 0;
        const sale = locks.withLock(stock.key, () =>
          transaction(async (tx) => {
            runs++;
            await stock.takeOne(tx);
          }, isolation),
        );
        await eventually(async () => expect(await waitingForLocks()).toBe(1));
        await rival.query('COMMIT');
        await sale;
        expect([runs, await held(), await stock.quantity()]).toEqual([1, false, 99]);
      },
    );

    it.each(ISOLATIONS)('lets readers claim at the same time at %s', async (isolation) => {
      const [{ locks }, { locks: others }] = [
        await start({ fence: {} }),
        await start({ fence: {} }),
      ];
      await stock.raiseFence(1);
      const both = makeGate();
      let inside = 0;
      const read = (service: LockService): Promise<unknown> =>
        service.withLock(stock.key, { mode: 'shared' }, () =>
          transaction(async (tx) => {
            if (++inside === 2) both.open();
            await both.opened;
            await tx.query('SELECT quantity FROM stock WHERE id = $1', [stock.product]);
          }, isolation),
        );
      await Promise.all([read(locks), read(others)]);
      expect([inside, await stock.fence()]).toEqual([2, 1]);
    });

    it('prevents the commit after it was lost', async () => {
      const { locks } = await start({ fence: {} });
      const sale = locks.withLock(stock.key, (lock) =>
        transaction(async (tx) => {
          await stock.takeOne(tx);
          await locks.forceRelease(stock.key);
          await eventually(async () => expect(lock.isHeld).toBe(false));
        }),
      );
      await expect(sale).rejects.toBeInstanceOf(LockLostError);
      expect(await stock.quantity()).toBe(100);
    });

    it('prevents a transaction from beginning after it was lost [R51]', async () => {
      const { locks } = await start({ fence: {} });
      let ran = false;
      const sale = locks.withLock(stock.key, async (lock) => {
        await locks.forceRelease(stock.key);
        await eventually(async () => expect(lock.isHeld).toBe(false));
        await transaction(async (tx) => {
          ran = true;
          await stock.takeOne(tx);
        });
      });
      await expect(sale).rejects.toBeInstanceOf(LockLostError);
      expect([ran, await stock.quantity()]).toEqual([false, 100]);
    });

    it('turns a swallowed SQL error into an error, not into a false commit', async () => {
      const { locks } = await start({ fence: {} });
      const sale = locks.withLock(stock.key, () =>
        transaction(async (tx) => {
          await stock.takeOne(tx);
          await Promise.resolve(tx.query('SELECT * FROM nowhere', [])).catch(() => {});
        }),
      );
      await expect(sale).rejects.toThrow();
      expect([await held(), await stock.quantity()]).toEqual([false, 100]);
    });

    it('is released at once if the COMMIT was refused [D84]', async () => {
      const { locks } = await start({ fence: {} });
      const sale = locks.withLock(stock.key, () =>
        transaction(async (tx) => {
          await stock.takeOne(tx);
          await tx.query('INSERT INTO strict VALUES (1), (1)', []);
        }),
      );
      await expect(sale).rejects.toThrow();
      expect([await held(), await stock.quantity()]).toEqual([false, 100]);
    });

    it('is kept if the COMMIT was not answered, until its lease has run out [D90]', async () => {
      const { locks } = await start({ fence: {} });
      const sale = locks.withLock(stock.key, { leaseMs: 3_000 }, () =>
        transaction(async (tx) => {
          await stock.takeOne(tx);
          await tx.query('INSERT INTO slow VALUES (1)', []);
        }),
      );
      const failure = sale.then(
        () => undefined,
        (error: unknown) => error,
      );
      await eventually(() => killCommits(postgres));
      expect(await failure).toBeInstanceOf(LockCommitUnknownError);
      expect(await failure).toMatchObject({ code: 'LOCK_COMMIT_UNKNOWN', key: stock.key });
      expect(((await failure) as Error).cause).toBeInstanceOf(Error); // the error of the driver
      const leftMs = await openAdmin(redis.url).pttl(`lock:{${stock.key}}`);
      expect(leftMs).toBeGreaterThan(0);
      expect(leftMs).toBeLessThanOrEqual(3_000);
    });

    it('allows no second transaction after an unanswered COMMIT', async () => {
      const { locks } = await start();
      let ran = 0;
      const sell = (): Promise<void> =>
        transaction(async (tx) => {
          ran++;
          await stock.takeOne(tx);
          if (ran === 1) await tx.query('INSERT INTO slow VALUES (1)', []);
        });
      const sale = locks.withLock(stock.key, { leaseMs: 3_000 }, async () => {
        const first = sell().then(
          () => undefined,
          (error: unknown) => error,
        );
        await eventually(() => killCommits(postgres));
        expect(await first).toBeInstanceOf(LockCommitUnknownError);
        await locks.withLock(stock.key, sell); // joins the outer hold
      });
      await expect(sale).rejects.toThrow(/Cannot open a transaction .* this one could repeat it/);
      await expect(sale).rejects.toBeInstanceOf(LockCommitUnknownError);
      expect(ran).toBe(1);
      expect(await held()).toBe(true);
      await locks.withLock(stock.key, sell); // possible once the lease has ended
      expect([ran, await stock.quantity()]).toEqual([2, 99]);
    });

    it('ends with its lease if the connection silently dies at the COMMIT [G45]', async () => {
      const proxy = await PostgresProxy.start(postgres.url);
      const proxied = await open(proxy.url);
      afterTest(() => void proxied.close()); // some drivers wait for the dead connection
      const { locks } = await start();
      const from = performance.now();
      const sale = locks.withLock(stock.key, { leaseMs: 1_500 }, () =>
        proxied.transaction(async (tx) => {
          await stock.takeOne(tx);
          proxy.dieAt(/commit/i);
        }),
      );
      await expect(sale).rejects.toBeInstanceOf(LockCommitUnknownError);
      expect(proxy.dead).toBe(1);
      expect(performance.now() - from).toBeGreaterThanOrEqual(1_000);
      expect(performance.now() - from).toBeLessThan(8_000);
      await eventually(async () => expect(await held()).toBe(false));
      await locks.withLock(stock.key, () => proxied.transaction((tx) => tx.query('SELECT 1', [])));
    });

    it('ends with its lease if the connection silently dies before the COMMIT [G45]', async () => {
      const proxy = await PostgresProxy.start(postgres.url);
      const proxied = await open(proxy.url);
      afterTest(() => void proxied.close()); // some drivers wait for the dead connection
      const { locks } = await start();
      const sale = locks.withLock(stock.key, { leaseMs: 1_500 }, () =>
        proxied.transaction(async (tx) => {
          await stock.takeOne(tx);
          proxy.dieAt(/not awaited/);
          Promise.resolve(tx.query('SELECT 1 /* not awaited */', [])).catch(() => {});
        }),
      );
      const pending = sleep(30_000, 'pending', { ref: false });
      const failed = Promise.race([sale, pending]);
      await expect(failed).rejects.toBeInstanceOf(LockLostError);
      expect(proxy.dead).toBe(1);
      await eventually(async () => expect(await held()).toBe(false));
      expect(await stock.quantity()).toBe(100);
      await locks.withLock(stock.key, () => proxied.transaction((tx) => tx.query('SELECT 1', [])));
    });

    it('makes the call fail if its body has committed with its own statement', async () => {
      const { locks } = await start();
      const sale = locks.withLock(stock.key, () =>
        transaction(async (tx) => {
          await stock.takeOne(tx);
          await Promise.resolve(tx.query('COMMIT', [])).catch(() => {});
        }),
      );
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      expect([await held(), await stock.quantity()]).toEqual([false, 100]);
    });

    it.each([
      `PREPARE TRANSACTION 'x'`,
      '/* all */ commit and chain',
      `SELECT ';'; ROLLBACK; UPDATE stock SET quantity = 0`,
      String.raw`SELECT '\'; COMMIT; SELECT 'a'`,
    ])('refuses a statement that would end it: %s', async (statement) => {
      const { locks } = await start();
      const sale = locks.withLock(stock.key, () =>
        transaction(async (tx) => {
          await stock.takeOne(tx);
          await Promise.resolve(tx.query(statement, [])).catch(() => {});
        }),
      );
      await expect(sale).rejects.toThrow(/only the code that has opened it may do/);
      expect([await held(), await stock.quantity()]).toEqual([false, 100]);
    });

    it.each([
      `CREATE OR REPLACE FUNCTION sold() RETURNS int LANGUAGE sql
       BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END`,
      `CREATE OR REPLACE PROCEDURE sell() BEGIN ATOMIC DELETE FROM strict; END`,
      `/* /* */ ; COMMIT */ SELECT E'it\\'s; COMMIT' AS "; COMMIT"`,
    ])('allows a statement that does not end it: %s', async (statement) => {
      const { locks } = await start();
      await locks.withLock(stock.key, () =>
        transaction(async (tx) => {
          await stock.takeOne(tx);
          await tx.query(statement, []);
        }),
      );
      expect(await stock.quantity()).toBe(99);
    });

    it('makes the call fail if the body has rolled back with its own statement', async () => {
      const { locks } = await start();
      const sale = locks.withLock(stock.key, () =>
        transaction(async (tx) => {
          await stock.takeOne(tx);
          await tx.query('ROLLBACK', []);
        }),
      );
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      expect([await held(), await stock.quantity()]).toEqual([false, 100]);
    });

    if (survivesDisconnect) {
      it('is released at once if the connection died before', async () => {
        const { locks } = await start({ fence: {} });
        const sale = locks.withLock(stock.key, () =>
          transaction(async (tx) => {
            await stock.takeOne(tx);
            await tx.query('SELECT pg_terminate_backend(pg_backend_pid())', []);
          }),
        );
        await expect(sale).rejects.toThrow();
        expect([await held(), await stock.quantity()]).toEqual([false, 100]);
      });
    }
  });

  describe('a lock requested inside a transaction', () => {
    it('is refused by default', async () => {
      const { locks } = await start();
      const sale = transaction(() => locks.withLock(stock.key, async () => {}));
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      expect(await held()).toBe(false);
    });

    it.each(ISOLATIONS)('restarts it at %s, and loses no update', async (isolation) => {
      const { locks } = await start({ fence: {}, insideTransaction: 'restart' });
      await Promise.all(
        Array.from({ length: 6 }, () =>
          transaction(async (tx) => {
            await tx.query('SELECT count(*) FROM stock', []);
            await locks.withLock(stock.key, () => stock.takeOne(tx, 1));
          }, isolation),
        ),
      );
      expect([await held(), await stock.quantity()]).toEqual([false, 94]);
    });

    it('restarts it once for all of its branches, and loses nothing', async () => {
      const { locks } = await start({ fence: {}, insideTransaction: 'restart' });
      const sell = (key: string, tx: Runs): Promise<unknown> =>
        locks.withLock(key, () =>
          tx.query('UPDATE stock SET quantity = quantity - 1 WHERE id = $1', [stock.product]),
        );
      await Promise.all(
        Array.from({ length: 4 }, () =>
          transaction(async (tx) => {
            await Promise.all([sell(stock.key, tx), sell(`${stock.key}:other`, tx)]);
          }),
        ),
      );
      expect([await held(), await stock.quantity()]).toEqual([false, 92]);
    });

    it('lets no statement of the abandoned run pass [D93]', async () => {
      const { locks } = await start({ fence: {}, insideTransaction: 'restart' });
      const again = makeGate();
      const late: Promise<string>[] = [];
      const steal = async (tx: Runs): Promise<void> => {
        await again.opened;
        await tx.query('UPDATE stock SET quantity = 0 WHERE id = $1', [stock.product]);
      };
      await transaction(async (tx) => {
        if (late.length === 0) {
          late.push(
            steal(tx).then(
              () => 'written',
              () => 'refused',
            ),
          );
        }
        await locks.withLock(stock.key, async () => {
          again.open();
          expect(await late[0]).toBe('refused');
          await stock.takeOne(tx);
        });
      });
      expect([await held(), await stock.quantity()]).toEqual([false, 99]);
    });
  });

  describe('a lock waited for inside a transaction', () => {
    it('is granted if each statement reads new data, as the database reports', async () => {
      const { locks } = await start({ fence: {}, insideTransaction: 'join' });
      await Promise.all(
        Array.from({ length: 3 }, () =>
          transaction((tx) => locks.withLock(stock.key, () => stock.takeOne(tx, 1))),
        ),
      );
      expect([await held(), await stock.quantity()]).toEqual([false, 97]);
    });

    it('is refused on an old snapshot', async () => {
      const { locks } = await start({ insideTransaction: 'join' });
      const sale = transaction(() => locks.withLock(stock.key, async () => {}), 'repeatable read');
      await expect(sale).rejects.toThrow(/snapshot of its first read/);
      expect(await held()).toBe(false);
    });
  });

  describe('a transaction that is ended by the time-outs of its lock', () => {
    it('fails with that reason if it was idle, and the process survives [D91]', async () => {
      const { locks } = await start({ fence: {}, transactionTimeouts: { idleMs: 150 } });
      const sale = locks.withLock(stock.key, () =>
        transaction(async (tx) => {
          await stock.takeOne(tx, 0);
          await sleep(500);
          await tx.query('SELECT 1', []);
        }),
      );
      if (survivesDisconnect) {
        await expect(sale).rejects.toThrow(/transactionTimeouts: idleMs 150/);
        expect([await held(), await stock.quantity()]).toEqual([false, 100]);
      } else {
        await sale; // no time-out is armed
        expect([await held(), await stock.quantity()]).toEqual([false, 99]);
      }
    });

    it('fails with that reason if a statement took too long', async () => {
      const { locks } = await start({ fence: {}, transactionTimeouts: { statementMs: 150 } });
      const sale = locks.withLock(stock.key, () =>
        transaction(async (tx) => {
          await stock.takeOne(tx, 0);
          await tx.query('SELECT pg_sleep(5)', []);
        }),
      );
      await expect(sale).rejects.toThrow(/transactionTimeouts: .*statementMs 150/);
      expect([await held(), await stock.quantity()]).toEqual([false, 100]);
    });
  });

  async function waitingForLocks(): Promise<number> {
    const rows = await postgres.query(
      `SELECT 1 FROM pg_stat_activity
       WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    );
    return rows.length;
  }
}

/** A driver time-out that also ends the wait for the ROLLBACK, which then remains unsent. */
function unansweredRollbacks({ open }: OrmUnderTest): void {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  it.each(['under a lock', 'without one'])(
    'never returns to the pool: no later transaction commits the failed work (%s)',
    async (where) => {
      const orm = await open(`${postgres.url}?query_timeout=1000`);
      afterTest(() => orm.close());
      const { locks } = await startLocks(redis.url);
      const sell = (): Promise<void> =>
        orm.transaction(async (tx) => {
          await stock.takeOne(tx);
          await tx.query('SELECT pg_sleep(3)', []);
        });
      const sale = where === 'under a lock' ? locks.withLock(stock.key, sell) : sell();
      const failure = await sale.then(
        () => undefined,
        (error: unknown) => error,
      );
      expect(inspect(failure)).toMatch(/timeout/i);
      expect(await isHeld(redis.url, stock.key)).toBe(false);
      await sleep(3_000); // until the server has finished the statement
      expect([await leftInside(orm, postgres), await stock.quantity()]).toEqual([0, 100]);
    },
  );
}

/** The number of connections with an open transaction, after the whole pool has run another one. */
async function leftInside(
  orm: OpenedOrm,
  postgres: ReturnType<typeof usePostgres>,
): Promise<number> {
  await Promise.all(
    Array.from({ length: 10 }, () => orm.transaction((tx) => tx.query('SELECT 1', []))),
  );
  const inside = await postgres.query(
    `SELECT 1 FROM pg_stat_activity
     WHERE datname = current_database() AND state LIKE 'idle in transaction%'`,
  );
  return inside.length;
}

/** The process stands still between the gate and the COMMIT for longer than its lease. */
function refusedCommits({ open, Client }: OrmUnderTest): void {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);
  const LEASE_MS = 1_500;

  it('returns to the pool without its transaction: no later one commits the refused work', async () => {
    const orm = await open(postgres.url);
    afterTest(() => orm.close());
    const { locks } = await startLocks(redis.url);
    let stoodStill = false;
    beforeCommit(() => {
      stoodStill = true;
      standStill(LEASE_MS + 100);
    }, Client);
    const sale = locks.withLock(stock.key, { leaseMs: LEASE_MS }, () =>
      orm.transaction((tx) => stock.takeOne(tx)),
    );
    await expect(sale).rejects.toBeInstanceOf(LockLostError);
    expect(stoodStill).toBe(true);
    expect([await leftInside(orm, postgres), await stock.quantity()]).toEqual([0, 100]);
  });
}

/** What the library has learned about a session makes later transactions cheaper, and must not make them less safe. */
function laterTransactions(
  { open, survivesDisconnect = true }: OrmUnderTest,
  costs: LockCosts,
): void {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  /** Opens an ORM that has run transactions under a lock before. */
  const start = async () => {
    const proxy = await PostgresProxy.start(postgres.url);
    const orm = await open(proxy.url);
    afterTest(() => orm.close());
    const { locks } = await startLocks(redis.url, { fence: {} });
    const sell = (): Promise<void> => orm.transaction((tx) => stock.takeOne(tx, 0));
    for (let n = 0; n < 2; n++) await locks.withLock(uniqueKey('first'), sell);
    return { proxy, orm, locks, sell };
  };

  it(`takes ${costs.roundTrips} round trips more under a lock, however many keys it has`, async () => {
    const { proxy, locks, sell } = await start();
    const plain = await proxy.roundTrips(sell);
    const withKeys = (keys: string[]): Promise<number> =>
      locks.withLock(keys, () => proxy.roundTrips(sell));
    expect(await withKeys([stock.key])).toBe(plain + costs.roundTrips);
    await withKeys([stock.key, uniqueKey('other')]);
    expect(await withKeys([stock.key, uniqueKey('other'), uniqueKey('third')])).toBe(
      plain + costs.roundTrips,
    );
  });

  it('is claimed before the body runs, with the time-outs, and rolls back as usual', async () => {
    const { orm, locks } = await start();
    const before = await stock.quantity();
    const sale = locks.withLock(stock.key, ({ fencingToken }) =>
      orm.transaction(async (tx) => {
        const [row] = (await tx.query(
          `SELECT token, current_setting('lock_timeout') AS wait,
           current_setting('idle_in_transaction_session_timeout') AS idle
           FROM lock_fence WHERE lock_key = $1`,
          [stock.key],
        )) as { token: string | number; wait: string; idle: string }[];
        expect(Number(row?.token)).toBe(fencingToken);
        expect([row?.wait, row?.idle]).toEqual(['10s', survivesDisconnect ? '8s' : '0']);
        await stock.takeOne(tx, 0);
        throw new Error('no stock');
      }),
    );
    await expect(sale).rejects.toThrow('no stock');
    expect([await stock.quantity(), await stock.fence()]).toEqual([before, NaN]);
    await orm.transaction((tx) => stock.takeOne(tx, 0));
    expect(await stock.quantity()).toBe(before - 1);
  });

  it.each(['read committed', 'repeatable read', 'serializable'] as const)(
    'has the isolation level that was requested: %s',
    async (isolation) => {
      const { orm, locks } = await start();
      await locks.withLock(stock.key, () =>
        orm.transaction(async (tx) => {
          const sql = `SELECT current_setting('transaction_isolation') AS level`;
          expect(await tx.query(sql, [])).toMatchObject([{ level: isolation }]);
        }, isolation),
      );
    },
  );

  it('runs no body after a newer holder', async () => {
    const { orm, locks } = await start();
    let ran = false;
    const sale = locks.withLock(stock.key, async ({ fencingToken }) => {
      await giveAway(redis.url, stock.key);
      await stock.raiseFence(fencingToken + 10_000_000);
      await orm.transaction(async () => void (ran = true));
    });
    await expect(sale).rejects.toBeInstanceOf(LockFencedError);
    expect(ran).toBe(false);
  });

  if (survivesDisconnect) {
    it('fails before its body if the connection breaks at the claim, and releases its lock', async () => {
      const { proxy, orm, locks, sell } = await start();
      const before = await stock.quantity();
      let ran = false;
      proxy.breakAt('INSERT INTO lock_fence');
      const sale = locks.withLock(stock.key, () => orm.transaction(async () => void (ran = true)));
      await expect(sale).rejects.toThrow();
      expect([ran, await isHeld(redis.url, stock.key)]).toEqual([false, false]);
      await locks.withLock(stock.key, sell);
      expect(await stock.quantity()).toBe(before - 1);
    });
  }
}
