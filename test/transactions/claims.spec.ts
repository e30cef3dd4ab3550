import { beforeAll, describe, expect, it } from '@jest/globals';
import {
  LockConfigError,
  LockInTransactionError,
  LockNotAcquiredError,
  type LockService,
} from 'nestjs-locked';
import { fenceTableSql, unfenced } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { type DataSource, EntitySchema } from 'typeorm';
import { AsyncResource } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { type ConnectionSettings, usePostgres } from '../support/databases.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { spyOnWarnings } from '../support/spy-on-warnings.js';
import { uniqueKey } from '../support/unique-key.js';
import { openDataSource } from './data-source.js';
import { isHeld, type StartedLocks, startLocks } from './locks.js';
import { createSlowCommitTable, whenCommitting } from './slow-commit.js';
import { type Runs, useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);
/** Another database, with its own fence table. */
const second = usePostgres();
beforeAll(async () => void (await second.query(fenceTableSql({ dialect: 'postgres' }))));

const openAware = async (more: Parameters<typeof openDataSource>[3] = {}): Promise<DataSource> =>
  lockAwareDataSource(await openDataSource('postgres', postgres.settings, 5, more));

const startFenced = (options: Parameters<typeof startLocks>[1] = {}): Promise<StartedLocks> =>
  startLocks(redis.url, { fence: true, ...options });

const LOST_CONTEXT =
  /^No transaction was opened under lock '.*', but meanwhile a transaction without a lock/;
const DEADLOCKS = 'SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()';

/** Runs work in another async context, as a batch does. */
function startQueue(): <T>(work: () => Promise<T>) => Promise<T> {
  const queue: (() => void)[] = [];
  const timer = setInterval(() => {
    for (const job of queue.splice(0)) job();
  }, 5);
  afterTest(() => clearInterval(timer));
  return (work) =>
    new Promise((resolve, reject) => {
      queue.push(() => void work().then(resolve, reject));
    });
}

/** The node-postgres pool of a TypeORM data source. */
const poolOf = ({ driver }: DataSource): unknown => (driver as { master?: unknown }).master;

const ISOLATIONS = ['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'] as const;

describe('parallel transactions under one lock, with the fence on', () => {
  it.each(ISOLATIONS)(
    'run one after the other at %s, however many they are [R60, D73]',
    async (isolation) => {
      const dataSource = await openAware();
      const { locks } = await startFenced();
      await locks.withLock(stock.key, () =>
        Promise.all(
          Array.from({ length: 20 }, () =>
            dataSource.transaction(isolation, (manager) => stock.takeOne(manager)),
          ),
        ),
      );
      expect(await stock.quantity()).toBe(80);
    },
  );

  it.each(['with a callback', 'by hand'])('wait without a connection, %s [D73]', async (how) => {
    const dataSource = await openAware();
    const { locks } = await startFenced();
    await locks.withLock(stock.key, async () => {
      const begun = makeGate();
      const sell = async (manager: Runs): Promise<void> => {
        await stock.takeOne(manager);
        begun.open();
        await sleep(20);
      };
      const sellByHand = async (): Promise<void> => {
        const runner = dataSource.createQueryRunner();
        await runner.startTransaction();
        await sell(runner);
        await runner.commitTransaction();
        await runner.release();
      };
      const sales = Array.from({ length: 20 }, () =>
        how === 'by hand' ? sellByHand() : dataSource.transaction(sell),
      );
      await begun.opened;
      expect(poolOf(dataSource)).toMatchObject({ waitingCount: 0, totalCount: 1 });
      await Promise.all(sales);
    });
    expect(await stock.quantity()).toBe(80);
  });

  it.each(ISOLATIONS)('opened by hand also run one after the other at %s', async (isolation) => {
    const dataSource = await openAware();
    const { locks } = await startFenced();
    const sell = async (): Promise<void> => {
      const runner = dataSource.createQueryRunner();
      await runner.startTransaction(isolation);
      await stock.takeOne(runner);
      await runner.commitTransaction();
      await runner.release();
    };
    await locks.withLock(stock.key, () => Promise.all(Array.from({ length: 12 }, sell)));
    expect(await stock.quantity()).toBe(88);
  });

  it.each([
    ['the lease lasts, if their call would not wait', { waitMs: 0, leaseMs: 10_000 }],
    ['their call would wait, if that is longer than the lease', { waitMs: 10_000, leaseMs: 500 }],
  ])('wait for each other for as long as %s', async (_, options) => {
    const dataSource = await openAware();
    const { locks } = await startFenced({ transactionTimeouts: false });
    const begun = makeGate();
    await locks.withLock(stock.key, options, async () => {
      const first = dataSource.transaction(async (manager) => {
        begun.open();
        await stock.takeOne(manager, 1_000);
      });
      await begun.opened;
      const asked = performance.now();
      await dataSource.transaction((manager) => stock.takeOne(manager));
      expect(performance.now() - asked).toBeGreaterThan(700); // it waited for longer than the other limit
      await first;
    });
    expect(await stock.quantity()).toBe(98);
  });

  it.each([
    ['before it, if it is not connected yet', false],
    ['after it, if it is', true],
  ])('share one connection with a query runner, and run %s', async (_, isBefore) => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    const { locks } = await startFenced();
    const runner = dataSource.createQueryRunner();
    const order: string[] = [];
    const withCallback = (): Promise<void> =>
      dataSource.transaction(async (manager) => {
        await stock.takeOne(manager);
        order.push('callback');
      });
    const byHand = async (): Promise<void> => {
      await runner.startTransaction();
      await stock.takeOne(runner);
      order.push('by hand');
      await runner.commitTransaction();
      await runner.release();
    };
    await locks.withLock(stock.key, { waitMs: 0 }, async () => {
      if (isBefore) await runner.connect();
      await Promise.all([withCallback(), byHand()]);
    });
    expect(order).toEqual(isBefore ? ['by hand', 'callback'] : ['callback', 'by hand']);
    expect(await stock.quantity()).toBe(98);
  });

  it('nested in each other, do not wait for each other for ever', async () => {
    const dataSource = await openAware();
    const { locks } = await startFenced({ transactionTimeouts: false });
    const [first, second] = [dataSource.createQueryRunner(), dataSource.createQueryRunner()];
    await locks.withLock(stock.key, { leaseMs: 500, waitMs: 300 }, async () => {
      await first.startTransaction();
      await expect(second.startTransaction()).rejects.toBeInstanceOf(LockNotAcquiredError);
      await first.commitTransaction();
      await second.startTransaction();
      await second.commitTransaction();
    });
    await Promise.all([first.release(), second.release()]);
  });
});

describe('a holder whose lock was revoked during its COMMIT', () => {
  it('keeps the next holder waiting, which then reads what it has written [D83]', async () => {
    await createSlowCommitTable(postgres);
    const dataSource = await openAware();
    const [{ locks }, { locks: next }] = await Promise.all([startFenced(), startFenced()]);
    let hasCommitted = false;
    const first = locks.withLock(stock.key, () =>
      dataSource
        .transaction(async (manager) => {
          await stock.takeOne(manager);
          await manager.query('INSERT INTO slow VALUES (1)');
        })
        .then(() => (hasCommitted = true)),
    );
    await whenCommitting(postgres);
    await next.forceRelease(stock.key);
    const seen: unknown[] = [];
    await next.withLock(stock.key, async () => {
      expect(hasCommitted).toBe(false);
      await dataSource.transaction(async (manager) => {
        const sql = 'SELECT quantity FROM stock WHERE id = $1';
        seen.push(...(await manager.query<unknown[]>(sql, [stock.product])));
      });
    });
    expect(seen).toEqual([{ quantity: 99 }]);
    await first;
  });
});

describe('a claim that another transaction blocks', () => {
  /** Opens the transaction of an earlier holder. @returns what ends it */
  const block = async (dataSource: DataSource, key: string): Promise<() => Promise<void>> => {
    const runner = dataSource.createQueryRunner();
    await runner.startTransaction();
    await runner.query('INSERT INTO lock_fence VALUES ($1, 1)', [key]);
    return async () => {
      await runner.rollbackTransaction();
      await runner.release();
    };
  };

  it('names all the keys that were claimed with it [D74]', async () => {
    const [dataSource, other] = await Promise.all([openAware(), openAware()]);
    const { locks } = await startFenced({ transactionTimeouts: { lockMs: 200 } });
    const keys = [uniqueKey('a'), uniqueKey('b')];
    const unblock = await block(other, keys[1] as string);
    const sale = locks.withLock(keys, () => dataSource.transaction(async () => {}));
    await expect(sale).rejects.toBeInstanceOf(LockNotAcquiredError);
    await expect(sale).rejects.toThrow(`The locks '${keys[0]}', '${keys[1]}' are ours`);
    await unblock();
  });

  it.each([
    ['wait for a lock', { lockMs: 200 }],
    ['statement', { statementMs: 200, lockMs: 0 }],
  ])(
    'as the second of its transaction names its own key, by the limit of a %s [D74]',
    async (_, transactionTimeouts) => {
      const [dataSource, other] = await Promise.all([openAware(), openAware()]);
      const { locks } = await startFenced({ transactionTimeouts, insideTransaction: 'join' });
      const unblock = await block(other, stock.key);
      const sale = locks.withLock(uniqueKey('first'), () =>
        dataSource.transaction('READ COMMITTED', () => locks.withLock(stock.key, async () => {})),
      );
      await expect(sale).rejects.toMatchObject({
        code: 'LOCK_NOT_ACQUIRED',
        key: stock.key,
        message: expect.stringMatching(/still has the transaction of an earlier holder open/),
      });
      await unblock();
    },
  );
});

describe('a claim that meets another one', () => {
  it('in a deadlock restarts with its transaction, and the body runs once', async () => {
    const [dataSource, other] = await Promise.all([openAware(), openAware()]);
    const { locks } = await startFenced();
    const [a, b] = [uniqueKey('a'), uniqueKey('b')] as const;
    for (const key of [a, b]) await postgres.query('INSERT INTO lock_fence VALUES ($1, 1)', [key]);
    const touch = 'UPDATE lock_fence SET token = token WHERE lock_key = $1';
    const rival = other.createQueryRunner();
    await rival.startTransaction();
    await rival.query(`SET LOCAL deadlock_timeout = '60s'`); // makes the claim the victim of the deadlock
    await rival.query(touch, [b]);
    let runs = 0;
    const sale = locks.withLock([a, b], () =>
      dataSource.transaction(async (manager) => {
        runs++;
        await stock.takeOne(manager);
      }),
    );
    const isBlocked = async (): Promise<boolean> => {
      const waiting = await postgres.query(
        `SELECT 1 FROM pg_stat_activity
          WHERE datname = current_database() AND wait_event_type = 'Lock'`,
      );
      return waiting.length === 1;
    };
    await eventually(async () => expect(await isBlocked()).toBe(true));
    const [{ deadlocks: before } = {}] = await postgres.query<{ deadlocks?: string }>(DEADLOCKS);
    await rival.query(touch, [a]); // succeeds only once the claim has failed
    await rival.commitTransaction();
    await rival.release();
    await sale;
    expect([runs, await stock.quantity()]).toEqual([1, 99]);
    await eventually(async () => {
      const [{ deadlocks } = {}] = await postgres.query<{ deadlocks?: string }>(DEADLOCKS);
      expect(Number(deadlocks)).toBeGreaterThan(Number(before));
    });
  });
});

describe('a claim waits no longer than its call', () => {
  const FORMS = [
    ['time-outs', {}],
    ['no time-outs', { transactionTimeouts: false }],
    ['a limit of its own that is shorter', { transactionTimeouts: { lockMs: 400 } }],
  ] as const;

  it.each(FORMS)('with %s, in later transactions as in the first', async (_, options) => {
    const [dataSource, other] = await Promise.all([openAware(), openAware()]);
    const { locks } = await startFenced(options);
    const sell = (): Promise<void> =>
      locks.withLock(stock.key, { waitMs: 500 }, () =>
        dataSource.transaction((manager) => stock.takeOne(manager)),
      );
    const blocker = other.createQueryRunner();
    for (let round = 1; round <= 3; round++) {
      await blocker.startTransaction();
      await blocker.query(
        'INSERT INTO lock_fence VALUES ($1, 1) ON CONFLICT (lock_key) DO UPDATE SET token = 1',
        [stock.key],
      );
      const startedAt = performance.now();
      await expect(sell()).rejects.toMatchObject({
        code: 'LOCK_NOT_ACQUIRED',
        message: expect.stringMatching(/still has the transaction of an earlier holder open/),
      });
      expect(performance.now() - startedAt).toBeLessThan(3_000);
      expect(performance.now() - startedAt).toBeGreaterThan(350);
      await blocker.rollbackTransaction();
      await sell();
    }
    await blocker.release();
    expect(await stock.quantity()).toBe(97);
  });

  it('and under several calls, no longer than the shortest wait', async () => {
    const [dataSource, other] = await Promise.all([openAware(), openAware()]);
    const { locks } = await startFenced({ transactionTimeouts: false });
    const blocker = other.createQueryRunner();
    await blocker.startTransaction();
    await blocker.query('INSERT INTO lock_fence VALUES ($1, 1)', [stock.key]);
    const startedAt = performance.now();
    const sale = locks.withLock(uniqueKey(), { waitMs: 500 }, () =>
      locks.withLock(stock.key, { waitMs: 10_000 }, () =>
        dataSource.transaction((manager) => stock.takeOne(manager)),
      ),
    );
    await expect(sale).rejects.toBeInstanceOf(LockNotAcquiredError);
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    await blocker.rollbackTransaction();
    await blocker.release();
  });

  it.each([
    ['time-outs', undefined, '10s'],
    ['time-outs of its own', { lockMs: 7_000 }, '7s'],
    ['no time-outs', false, '0'],
  ])('and later statements may wait as long as before: %s', async (_, timeouts, afterwards) => {
    const dataSource = await openAware();
    const { locks } = await startFenced(
      timeouts === undefined ? {} : { transactionTimeouts: timeouts },
    );
    const shown: unknown[] = [];
    for (let round = 1; round <= 3; round++) {
      await locks.withLock([stock.key, uniqueKey()], { waitMs: 500 }, () =>
        dataSource.transaction(async (manager) => {
          shown.push(...(await manager.query<unknown[]>('SHOW lock_timeout')));
        }),
      );
    }
    expect(shown).toEqual(Array(3).fill({ lock_timeout: afterwards }));
  });

  it('even after it was refused, raised and tried again', async () => {
    const dataSource = await openAware();
    const { locks } = await startFenced();
    await stock.raiseFence(Date.now() * 1_000 + 3_600_000_000);
    await locks.withLock(stock.key, { waitMs: 500 }, () =>
      dataSource.transaction(async (manager) => {
        const [row] = await manager.query<unknown[]>('SHOW lock_timeout');
        expect(row).toEqual({ lock_timeout: '10s' });
      }),
    );
  });
});

describe('keys whose numbers are behind those of the database', () => {
  it.each([3, 10])('are raised at once: %i of them, in one call', async (count) => {
    const dataSource = await openAware();
    const { locks } = await startFenced();
    const keys = Array.from({ length: count }, (_, n) => uniqueKey(`behind-${n}`));
    // Specs on the same server have raised the number that all keys share.
    const present = await locks.withLock(uniqueKey(), (lock) => lock.fencingToken);
    const ahead = present + 3_600_000_000;
    for (const [n, key] of keys.entries()) {
      await postgres.query('INSERT INTO lock_fence VALUES ($1, $2)', [key, ahead + n]);
    }
    const numbers = await locks.withLock(keys, async (lock) => {
      expect(lock.fencingTokenOf(keys[0] as string)).toBeLessThan(ahead);
      await dataSource.transaction(async () => {});
      return keys.map((key) => lock.fencingTokenOf(key));
    });
    for (const [n, number] of numbers.entries()) expect(number).toBeGreaterThan(ahead + n);
    const rows = await postgres.query<{ token: string }>(
      'SELECT token FROM lock_fence WHERE lock_key = ANY ($1) ORDER BY lock_key',
      [keys],
    );
    const byKey = keys.map((key, n) => ({ key, token: String(numbers[n]) }));
    const expected = byKey.sort((a, b) => (a.key < b.key ? -1 : 1)).map(({ token }) => token);
    expect(rows.map(({ token }) => token)).toEqual(expected);
  });

  it('are also raised in a run that was restarted for them', async () => {
    const dataSource = await openAware();
    const { locks } = await startFenced({ insideTransaction: 'restart' });
    const keys = ['a', 'b', 'c', 'd'].map((name) => uniqueKey(name));
    const ahead = Date.now() * 1_000 + 3_600_000_000;
    for (const key of keys) {
      await postgres.query('INSERT INTO lock_fence VALUES ($1, $2)', [key, ahead]);
    }
    let runs = 0;
    await dataSource.transaction(async (manager) => {
      runs++;
      await locks.withLock(keys, async (lock) => {
        for (const key of keys) expect(lock.fencingTokenOf(key)).toBeGreaterThan(ahead);
        await stock.takeOne(manager);
      });
    });
    expect([runs, await stock.quantity()]).toEqual([2, 99]);
  });
});

describe('the rights of the database user', () => {
  it('that are missing for the fence table are named, with the statement that grants them', async () => {
    const user = `u${uniqueKey().replace(/\W/g, '')}`.slice(0, 40);
    await postgres.query(`CREATE ROLE ${user} LOGIN PASSWORD 'secret'`);
    const settings = { ...postgres.settings, user, password: 'secret' };
    const dataSource = lockAwareDataSource(await openDataSource('postgres', settings, 2));
    const { locks } = await startFenced();
    const sale = locks.withLock(stock.key, () => dataSource.transaction(async () => {}));
    await expect(sale).rejects.toBeInstanceOf(LockConfigError);
    await expect(sale).rejects.toMatchObject({
      message: expect.stringContaining('GRANT SELECT, INSERT, UPDATE ON lock_fence'),
      cause: { driverError: { code: '42501' } },
    });
    await postgres.query(`GRANT SELECT, INSERT, UPDATE ON lock_fence TO ${user}`);
    await locks.withLock(stock.key, () => dataSource.transaction(async () => {}));
    expect(await stock.fence()).toBeGreaterThan(0);
    await postgres.query(`DROP OWNED BY ${user}`);
    await postgres.query(`DROP ROLE ${user}`);
  });
});

describe('two databases whose transactions are nested', () => {
  const openTwo = async (): Promise<readonly [DataSource, DataSource]> => [
    lockAwareDataSource(await openDataSource('postgres', postgres.settings), {
      connectionName: 'one',
    }),
    lockAwareDataSource(await openDataSource('postgres', second.settings), {
      connectionName: 'two',
    }),
  ];
  /** Opens the outer transaction, and the inner one once both branches have their outer one. */
  const nest = (
    outer: DataSource,
    inner: DataSource,
    opened: () => void,
    both: Promise<unknown>,
  ): Promise<void> =>
    outer.transaction(async () => {
      opened();
      await both;
      await inner.transaction(async () => {});
    });

  it('in opposite orders by branches are refused, and do not wait until the lease ends', async () => {
    const [one, two] = await openTwo();
    const { locks } = await startFenced();
    const [inOne, inTwo] = [makeGate(), makeGate()];
    const both = Promise.all([inOne.opened, inTwo.opened]);
    const startedAt = performance.now();
    const outcomes = await locks.withLock(stock.key, () =>
      Promise.allSettled([nest(one, two, inOne.open, both), nest(two, one, inTwo.open, both)]),
    );
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    const [failed, ...more] = outcomes.filter(({ status }) => status === 'rejected');
    expect([more.length, outcomes.length]).toEqual([0, 2]);
    const reason: unknown = failed?.status === 'rejected' ? failed.reason : undefined;
    expect(reason).toBeInstanceOf(LockInTransactionError);
    expect((reason as Error).message).toMatch(
      /^A transaction on connection .* the other way round/,
    );
  });

  it('in one order take turns, however many branches there are', async () => {
    const [one, two] = await openTwo();
    const { locks } = await startFenced();
    let inside = 0;
    const branch = (): Promise<void> =>
      one.transaction(() =>
        two.transaction(async () => {
          expect(++inside).toBe(1);
          await sleep(5);
          inside--;
        }),
      );
    await locks.withLock(stock.key, () => Promise.all(Array.from({ length: 6 }, branch)));
  });

  it('are not refused because of a branch that has left its transaction', async () => {
    const [one, two] = await openTwo();
    const { locks } = await startFenced();
    await locks.withLock(stock.key, async () => {
      const [twoIsOpen, oneIsOver] = [makeGate(), makeGate()];
      const holder = two.transaction(async () => {
        twoIsOpen.open();
        await oneIsOver.opened;
        await one.transaction(async () => {});
      });
      await twoIsOpen.opened;
      let late: Promise<unknown> = Promise.resolve();
      await one.transaction(async () => {
        late = two.transaction(async () => {}); // waits for the holder, and is not awaited
        await sleep(20);
      });
      oneIsOver.open();
      await holder;
      await late;
    });
  });
});

describe('a second transaction inside the first', () => {
  it('is refused if it needs the fence, and runs without it where it says so', async () => {
    const dataSource = await openAware();
    const { locks } = await startFenced();
    await locks.withLock(stock.key, async () => {
      const audit = (): Promise<unknown> =>
        dataSource.transaction((manager) =>
          manager.query('INSERT INTO stock VALUES ($1, 1)', [`audit-${stock.product}`]),
        );
      await dataSource.transaction(async (manager) => {
        const refused = expect(audit()).rejects;
        await refused.toThrow(
          new RegExp(`^A second transaction under lock '${stock.key}' was refused inside an open`),
        );
        await unfenced(audit);
        await stock.takeOne(manager);
      });
    });
    const rows = await postgres.query('SELECT 1 FROM stock WHERE id = $1', [
      `audit-${stock.product}`,
    ]);
    expect([rows.length, await stock.quantity()]).toEqual([1, 99]);
  });

  it('is still guarded by the gate', async () => {
    const dataSource = await openAware();
    const { locks } = await startFenced();
    const sale = locks.withLock(stock.key, () =>
      unfenced(() =>
        dataSource.transaction(async (manager) => {
          await stock.takeOne(manager);
          await locks.forceRelease(stock.key);
          await sleep(50);
        }),
      ),
    );
    await expect(sale).rejects.toMatchObject({ code: 'LOCK_LOST' });
    expect([await stock.quantity(), await stock.fence()]).toEqual([100, NaN]);
  });

  it('does not wait for a turn if it runs without the fence', async () => {
    const dataSource = await openAware();
    const { locks } = await startFenced();
    await locks.withLock(stock.key, { leaseMs: 3_000, waitMs: 3_000 }, async () => {
      const [opened, seen] = [makeGate(), makeGate()];
      const first = dataSource.transaction(async () => {
        opened.open();
        await seen.opened;
      });
      await opened.opened;
      await unfenced(() => dataSource.transaction(async () => seen.open()));
      await first;
    });
  });

  it('may be read-only', async () => {
    const dataSource = await openAware({
      extra: { options: '-c default_transaction_read_only=on' } as never,
    });
    const { locks } = await startFenced();
    await locks.withLock(stock.key, () =>
      unfenced(() => dataSource.transaction((manager) => manager.query('SELECT 1'))),
    );
    expect(await stock.fence()).toBeNaN();
  });
});

describe('with the fence on, unfenced work is never silent', () => {
  it('a misspelt connection is refused when its transaction is opened', async () => {
    const dataSource = await openAware();
    const { locks } = await startFenced({ fence: { connections: ['defualt'] } });
    let ran = false;
    const sale = locks.withLock(stock.key, () =>
      dataSource.transaction(async () => void (ran = true)),
    );
    await expect(sale).rejects.toBeInstanceOf(LockConfigError);
    await expect(sale).rejects.toThrow(
      /fence\.connections names 'defualt', but the lock-aware connections are/,
    );
    expect(ran).toBe(false);
    await dataSource.transaction(async () => {}); // without a lock, nothing is fenced
  });

  it('a statement that writes outside of a transaction logs one warning', async () => {
    const dataSource = await openAware();
    const { locks } = await startFenced();
    const warnings = spyOnWarnings();
    const update = 'UPDATE stock SET quantity = quantity - 1 WHERE id = $1';
    await dataSource.query(update, [stock.product]); // without a lock
    await locks.withLock(stock.key, async () => {
      await dataSource.query('SELECT 1 FROM stock');
      await dataSource.transaction((manager) => manager.query(update, [stock.product]));
      await unfenced(() => dataSource.query(update, [stock.product]));
      expect(warnings()).toEqual([]);
      await dataSource.query(update, [stock.product]);
      await dataSource.query(`WITH one AS (SELECT 1) ${update}`, [stock.product]);
    });
    expect(warnings()).toEqual([
      expect.stringMatching(/^A statement under lock '.*' is sent outside a transaction/),
    ]);
    expect(await stock.quantity()).toBe(95);
  });

  it('a transaction that may have lost the context of its lock logs one warning', async () => {
    const dataSource = await openAware();
    const { locks } = await startFenced();
    const warnings = spyOnWarnings();
    const sell = () => dataSource.transaction((manager) => stock.takeOne(manager));
    const fail = () => dataSource.transaction(() => Promise.reject(new Error('of the body')));
    const elsewhere = startQueue();
    await elsewhere(sell); // without a lock, while none is held
    await locks.withLock(stock.key, () => sleep(1));
    await locks.withLock(stock.key, () => Promise.all([sell(), elsewhere(sell)]));
    await locks.withLock(stock.key, () => elsewhere(AsyncResource.bind(sell)));
    await locks.withLock(stock.key, () => elsewhere(() => unfenced(sell)));
    await locks.withLock(stock.key, () => elsewhere(fail).catch(() => {}));
    await unfenced(() => locks.withLock(stock.key, () => elsewhere(sell)));
    await locks.withLock(stock.key, () => elsewhere(() => locks.withLock('another', sell)));
    expect(warnings()).toEqual([]);

    for (let i = 0; i < 2; i++) await locks.withLock(stock.key, () => elsewhere(sell));
    expect(warnings()).toEqual([expect.stringMatching(LOST_CONTEXT)]);
  });

  it('a lost context logs a warning although the work has read under its lock before', async () => {
    const dataSource = await openAware();
    const { locks } = await startFenced();
    const warnings = spyOnWarnings();
    const elsewhere = startQueue();
    await locks.withLock(stock.key, async () => {
      await dataSource.query('SELECT quantity FROM stock WHERE id = $1', [stock.product]);
      await elsewhere(() => dataSource.transaction((manager) => stock.takeOne(manager)));
    });
    expect(warnings()).toEqual([expect.stringMatching(LOST_CONTEXT)]);
  });

  it('a lost context logs a warning although a hook before the COMMIT has released its runner', async () => {
    const dataSource = await openAware();
    const { locks } = await startFenced();
    const warnings = spyOnWarnings();
    const elsewhere = startQueue();
    dataSource.subscribers.push({
      beforeQuery: ({ query, queryRunner }) =>
        query === 'COMMIT' ? queryRunner.release() : undefined, // TypeORM sends the COMMIT anyway
    });
    const sellByHand = async (): Promise<void> => {
      const runner = dataSource.createQueryRunner();
      await runner.startTransaction();
      await stock.takeOne(runner.manager);
      await runner.commitTransaction();
    };
    await locks.withLock(stock.key, () => elsewhere(sellByHand));
    expect(await stock.quantity()).toBe(99);
    expect(warnings()).toEqual([expect.stringMatching(LOST_CONTEXT)]);
  });

  it.each([
    ['without the fence on purpose', unfenced, { fence: true }],
    [
      'on a connection without the fence',
      <T>(work: () => Promise<T>) => work(),
      { fence: { connections: ['other'] } },
    ],
  ] as const)('a lock under which the work wrote %s has not lost its context', async (...args) => {
    const [, inThatWay, options] = args;
    const dataSource = await openAware();
    const other = lockAwareDataSource(await openDataSource('postgres', second.settings), {
      connectionName: 'other',
    });
    const { locks } = await startFenced(options);
    const warnings = spyOnWarnings();
    const elsewhere = startQueue();
    const sellElsewhere = () =>
      elsewhere(() => other.transaction((manager) => manager.query('SELECT 1')));
    const update = 'UPDATE stock SET quantity = quantity - 1 WHERE id = $1';
    await locks.withLock(stock.key, async () => {
      await inThatWay(() => dataSource.query(update, [stock.product]));
      await sellElsewhere();
    });
    expect(warnings()).toEqual([]);
    await locks.withLock(stock.key, sellElsewhere); // without that write, the lost context is logged
    expect(warnings()).toEqual([expect.stringMatching(LOST_CONTEXT)]);
  });

  it('a lost context logs a warning if the work fails afterwards, and its caller gets the error', async () => {
    const dataSource = await openAware();
    const { locks } = await startFenced();
    const warnings = spyOnWarnings();
    const elsewhere = startQueue();
    const sale = locks.withLock(stock.key, async () => {
      await elsewhere(() => dataSource.transaction((manager) => stock.takeOne(manager)));
      throw new Error('of the work');
    });
    await expect(sale).rejects.toThrow('of the work');
    expect(warnings()).toEqual([expect.stringMatching(LOST_CONTEXT)]);
    expect(await isHeld(redis.url, stock.key)).toBe(false);
  });

  it('a lost context logs a warning although a longer transaction from before the lock ends last', async () => {
    const dataSource = await openAware();
    const { locks } = await startFenced();
    const warnings = spyOnWarnings();
    const elsewhere = startQueue();
    const [begun, end] = [makeGate(), makeGate()];
    const long = dataSource.transaction(async () => {
      begun.open();
      await end.opened;
    });
    await begun.opened;
    await locks.withLock(stock.key, async () => {
      await elsewhere(() => dataSource.transaction((manager) => stock.takeOne(manager)));
      end.open();
      await long;
    });
    expect(warnings()).toEqual([expect.stringMatching(LOST_CONTEXT)]);
  });

  it('a call that has joined a lock leaves the warning to the call that took it', async () => {
    const dataSource = await openAware();
    const { locks } = await startFenced();
    const warnings = spyOnWarnings();
    const elsewhere = startQueue();
    const sell = () => dataSource.transaction((manager) => stock.takeOne(manager));
    const joined = () => locks.withLock(stock.key, () => elsewhere(sell));
    await locks.withLock(stock.key, async () => {
      await joined();
      await sell();
    });
    expect(warnings()).toEqual([]);
    await locks.withLock(stock.key, joined);
    expect(warnings()).toEqual([expect.stringMatching(LOST_CONTEXT)]);
  });

  it.each([
    ['without the fence', {}],
    ['on a connection without it', { fence: { connections: ['other'] } }],
  ])('a transaction under no lock logs no warning %s', async (_, options) => {
    const dataSource = await openAware();
    lockAwareDataSource(await openDataSource('postgres', second.settings), {
      connectionName: 'other',
    });
    const { locks } = await startLocks(redis.url, options);
    const warnings = spyOnWarnings();
    const elsewhere = startQueue();
    await locks.withLock(stock.key, () =>
      elsewhere(() => dataSource.transaction((manager) => stock.takeOne(manager))),
    );
    expect(warnings()).toEqual([]);
  });

  it('each data source that is not lock-aware logs a warning at start, and no other', async () => {
    const wrapped = await openAware();
    const plain = await openDataSource('postgres', postgres.settings);
    const other = await openDataSource('postgres', second.settings);
    const providers = [
      { provide: 'wrapped', useValue: wrapped },
      { provide: 'plain', useValue: plain },
      { provide: 'again', useValue: plain },
      { provide: 'other', useValue: other },
    ];
    const warnings = spyOnWarnings();
    await startLocks(redis.url, { fence: { connections: ['default'] } }, providers);
    await startLocks(redis.url, {}, providers);
    await startLocks(redis.url, { fence: true }, providers.slice(0, 1));
    expect(warnings()).toEqual([]);
    await startLocks(redis.url, { fence: true }, providers);
    const of = ({ database }: ConnectionSettings): string =>
      `A data source of TypeORM (postgres, database '${database}') is not lock-aware: its`;
    expect(warnings()).toEqual([
      expect.stringContaining(of(postgres.settings)),
      expect.stringContaining(of(second.settings)),
    ]);
  });

  it('a proxy is not read at start: it may be one that can be read only within a request', async () => {
    await openAware();
    // A strict proxy provider of nestjs-cls tolerates only these reads outside a request.
    const readByNest = /^constructor$|^then$|^on[A-Z]|^before[A-Z]/;
    const read: string[] = [];
    const get = (_: object, name: string | symbol): void => {
      if (!readByNest.test(String(name))) read.push(String(name));
    };
    const ofRequest: object = new Proxy({}, { get });
    await startLocks(redis.url, { fence: true }, [{ provide: 'of request', useValue: ofRequest }]);
    expect(read).toEqual([]);
  });

  it.each<[string, object]>([
    [
      'a getter that fails',
      {
        createQueryRunner: () => {},
        get manager() {
          throw new Error('not connected yet');
        },
      },
    ],
    [
      'a prototype that cannot be asked',
      Object.create(
        new Proxy(
          { createQueryRunner: () => {}, manager: {}, options: {} },
          {
            has() {
              throw new Error('not to be asked');
            },
          },
        ),
      ) as object,
    ],
    ['no options', { createQueryRunner: () => {}, manager: {}, options: null }],
  ])('an object that only looks like a data source is ignored: with %s', async (_, useValue) => {
    await openAware();
    const warnings = spyOnWarnings();
    await startLocks(redis.url, { fence: true }, [{ provide: 'other', useValue }]);
    expect(warnings()).toEqual([]);
  });
});

describe('a write beside the open transaction, under its lock', () => {
  const Stock = new EntitySchema<{ id: string; quantity: number }>({
    name: 'Stock',
    tableName: 'stock',
    columns: { id: { type: 'varchar', primary: true }, quantity: { type: 'int' } },
  });

  it('is refused if a repository opens its own transaction for it, and succeeds through that of the transaction [D75]', async () => {
    const dataSource = await openAware({ entities: [Stock] });
    const { locks } = await startFenced();
    await locks.withLock(stock.key, () =>
      dataSource.transaction(async (manager) => {
        const piece = { id: stock.product, quantity: 7 };
        const beside = dataSource.getRepository(Stock).save(piece);
        await expect(beside).rejects.toBeInstanceOf(LockInTransactionError);
        await expect(beside).rejects.toThrow(/its own manager, because a plain repository\.save/);
        await manager.getRepository(Stock).save(piece);
      }),
    );
    expect(await stock.quantity()).toBe(7);
    await locks.withLock(stock.key, () =>
      dataSource.getRepository(Stock).save({ id: stock.product, quantity: 8 }),
    );
    expect(await stock.quantity()).toBe(8);
  });
});

describe('two data sources of one database, under one lock', () => {
  it('with the same name are refused at once when nested', async () => {
    const [outer, inner] = await Promise.all([openAware(), openAware()]);
    const { locks } = await startFenced();
    const sale = locks.withLock(stock.key, () =>
      outer.transaction(() => inner.transaction((manager) => stock.takeOne(manager))),
    );
    await expect(sale).rejects.toThrow(/has claimed the same key in the same database/);
    expect(await stock.quantity()).toBe(100);
  });
});

describe('a transaction that cannot be claimed as it is', () => {
  const sell = (dataSource: DataSource, locks: LockService): Promise<void> =>
    locks.withLock(stock.key, () => dataSource.transaction((manager) => stock.takeOne(manager)));

  it('because it is read-only fails with that reason and the remedies [D78]', async () => {
    const dataSource = await openAware({
      extra: { options: '-c default_transaction_read_only=on' } as never,
    });
    const { locks } = await startFenced();
    const sale = sell(dataSource, locks);
    await expect(sale).rejects.toBeInstanceOf(LockConfigError);
    await expect(sale).rejects.toThrow(/read-only transaction.*open the transaction for writing/);
    const { locks: unfenced } = await startLocks(redis.url);
    await unfenced.withLock(stock.key, () =>
      dataSource.transaction((manager) => manager.query('SELECT 1')),
    );
  });

  it('because its level is set inside fails with that reason and the remedy [D78]', async () => {
    const dataSource = await openAware();
    const { locks } = await startFenced();
    const set = 'SET TRANSACTION ISOLATION LEVEL SERIALIZABLE';
    const sale = locks.withLock(stock.key, () =>
      dataSource.transaction((manager) => manager.query(set)),
    );
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    await expect(sale).rejects.toThrow(/give the isolation level when the transaction is opened/);
    const { locks: unfenced } = await startLocks(redis.url);
    await unfenced.withLock(stock.key, () =>
      dataSource.transaction((manager) => manager.query(set)),
    );
  });
});

describe('services with different prefixes', () => {
  it('share a fence table, and do not block each other over keys of the same name [D80]', async () => {
    const dataSource = await openAware();
    const { locks } = await startFenced();
    const { locks: others } = await startFenced({ keyPrefix: 'billing:' });
    const [opened, end] = [makeGate(), makeGate()];
    const first = locks.withLock(stock.key, () =>
      dataSource.transaction(async () => {
        opened.open();
        await end.opened;
      }),
    );
    await opened.opened;
    await others.withLock(stock.key, () =>
      dataSource.transaction((manager) => stock.takeOne(manager)),
    );
    end.open();
    await first;
    const rows = await postgres.query<{ lock_key: string }>(
      'SELECT lock_key FROM lock_fence WHERE lock_key LIKE $1',
      [`%${stock.product}%`],
    );
    const keys = rows.map(({ lock_key }) => lock_key);
    expect(keys.sort()).toEqual([`billing:{${stock.key}}`, stock.key]);
  });
});
