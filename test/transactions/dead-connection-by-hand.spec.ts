import { describe, expect, it } from '@jest/globals';
import {
  LockCommitUnknownError,
  LockInTransactionError,
  LockLostError,
  type LockService,
} from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { DataSource, EntitySubscriberInterface, QueryRunner } from 'typeorm';
import type { EventEmitter } from 'node:events';
import { type TestDatabase, useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { eventually } from '../support/eventually.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { createSlowCommitTable, killCommits } from './slow-commit.js';
import { type Stock, useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

type Work = (runner: QueryRunner) => Promise<unknown>;

/** As much code does it: it leaves a query runner alone that TypeORM itself has released. */
async function transact(dataSource: DataSource, work: Work): Promise<void> {
  const runner = dataSource.createQueryRunner();
  try {
    await runner.startTransaction();
    await work(runner);
    await runner.commitTransaction();
  } catch (error) {
    if (!runner.isReleased) await runner.rollbackTransaction();
    throw error;
  } finally {
    if (!runner.isReleased) await runner.release();
  }
}

/** The database ends the connection, as it does with one that was idle for too long. */
async function kill(runner: QueryRunner, pid = pidOf(runner)): Promise<void> {
  await postgres.query('SELECT pg_terminate_backend($1::int)', [await pid]);
  await eventually(() => expect(runner.isReleased).toBe(true));
}

async function pidOf(runner: QueryRunner): Promise<number | undefined> {
  const [row] = (await runner.query('SELECT pg_backend_pid() AS pid')) as { pid: number }[];
  return row?.pid;
}

/** As `kill`, but no statement of the runner comes before it. */
async function killUnseen(runner: QueryRunner): Promise<void> {
  await postgres.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE state = 'idle in transaction' AND datname = current_database()`,
  );
  await eventually(() => expect(runner.isReleased).toBe(true));
}

async function killOnMariaDb(database: TestDatabase, runner: QueryRunner): Promise<void> {
  const [row] = (await runner.query('SELECT CONNECTION_ID() AS id')) as { id: number }[];
  const connection = (await runner.connect()) as EventEmitter;
  const ended = new Promise((resolve) => connection.once('error', resolve));
  await database.query(`KILL CONNECTION ${Number(row?.id)}`);
  await ended;
}

/** In a nested transaction. */
const nested =
  (work: Work): Work =>
  async (runner) => {
    await runner.startTransaction();
    try {
      await work(runner);
      await runner.commitTransaction();
    } catch (error) {
      if (!runner.isReleased) await runner.rollbackTransaction();
      throw error;
    }
  };

/** Fails the first time, because it has no connection any more. */
const dyingOnce = (die: Work, sell: Work): Work => {
  let hasDied = false;
  return async (runner) => {
    if (!hasDied) await die(runner);
    hasDied = true;
    await sell(runner);
  };
};

const state = async (of: Stock = stock): Promise<unknown> => [
  await isHeld(redis.url, of.key),
  await of.quantity(),
];

interface Started {
  readonly dataSource: DataSource;
  readonly locks: LockService;
}

async function start(
  fence = true,
  subscriber: EntitySubscriberInterface = {},
  leaseMs = 30_000,
): Promise<Started> {
  const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
  dataSource.subscribers.push(subscriber);
  return { dataSource, locks: (await startLocks(redis.url, { fence, leaseMs })).locks };
}

const sell: Work = (runner) => stock.takeOne(runner);
/** Of the gate, which asks the database about the transaction. */
const LAST_LOOK = /'inside'/;
const BY_FENCE = [
  ['with the fence', true],
  ['without the fence', false],
] as const;

describe('a connection that dies in a transaction driven manually', () => {
  it.each(BY_FENCE)('ends its lock, %s', async (_, fence) => {
    const { dataSource, locks } = await start(fence);
    const sale = locks.withLock(stock.key, () => transact(dataSource, dyingOnce(kill, sell)));
    await expect(sale).rejects.toThrow(/already released/);
    expect(await state()).toEqual([false, 100]);
  });

  it.each(BY_FENCE)('lets its call try once more, %s', async (_, fence) => {
    const { dataSource, locks } = await start(fence);
    const work = dyingOnce(kill, sell);
    await locks.withLock(stock.key, async () => {
      await expect(transact(dataSource, work)).rejects.toThrow(/already released/);
      await transact(dataSource, work);
    });
    expect(await state()).toEqual([false, 99]);
  });

  it('ends its lock if that happens in a nested transaction', async () => {
    const { dataSource, locks } = await start();
    const work = dyingOnce(kill, sell);
    const sale = locks.withLock(stock.key, () => transact(dataSource, nested(work)));
    await expect(sale).rejects.toThrow(/already released/);
    expect(await state()).toEqual([false, 100]);
  });

  it.each(BY_FENCE)('ends its lock if that happens while it begins, %s', async (_, fence) => {
    const { dataSource, locks } = await start(fence, {
      afterTransactionStart: ({ queryRunner }) => kill(queryRunner),
    });
    const sale = locks.withLock(stock.key, () => transact(dataSource, sell));
    await expect(sale).rejects.toThrow();
    expect(await state()).toEqual([false, 100]);
  });

  it('ends its lock if that happens while the gate asks the database', async () => {
    let hasAsked = false;
    const subscriber: EntitySubscriberInterface = {
      beforeQuery: async ({ query, queryRunner }) => {
        if (hasAsked || !LAST_LOOK.test(query)) return;
        hasAsked = true;
        await kill(queryRunner);
      },
    };
    const { dataSource, locks } = await start(true, subscriber, 3_000);
    const sale = locks.withLock(stock.key, () =>
      transact(dataSource, async (runner) => {
        // It asks if the transaction is older than its idle time-out.
        for (let i = 0; i < 5; i++) await runner.query('SELECT pg_sleep(0.2)');
      }),
    );
    await expect(sale).rejects.toThrow();
    expect(await state()).toEqual([false, 100]);
  });

  it('ends its lock if that happens in a hook before its COMMIT', async () => {
    const { dataSource, locks } = await start(true, {
      beforeTransactionCommit: ({ queryRunner }) => kill(queryRunner),
    });
    const sale = locks.withLock(stock.key, () => transact(dataSource, sell));
    await expect(sale).rejects.toThrow(/already released/);
    expect(await state()).toEqual([false, 100]);
  });

  it('ends its lock if that happens behind a COMMIT that was not sent', async () => {
    const other = `other:${stock.key}`;
    let lose: () => Promise<unknown> = () => Promise.resolve();
    const { dataSource, locks } = await start(true, {
      beforeQuery: ({ query }) => (query === 'COMMIT' ? lose() : undefined),
    });
    const sale = locks.withLock([stock.key, other], async (lock) => {
      lose = async () => {
        await locks.forceRelease(other);
        await eventually(() => expect(lock.isHeld).toBe(false));
      };
      const runner = dataSource.createQueryRunner();
      await runner.startTransaction();
      const pid = pidOf(runner);
      await sell(runner);
      const error = await runner.commitTransaction().catch((refused: unknown) => refused);
      await kill(runner, pid);
      return error;
    });
    await expect(sale).resolves.toBeInstanceOf(LockLostError);
    expect(await state()).toEqual([false, 100]);
  });

  it('ends its lock if that happens to the next transaction, of a hook behind the COMMIT', async () => {
    let commits = 0;
    const { dataSource, locks } = await start(true, {
      afterTransactionCommit: async ({ queryRunner }) => {
        if (++commits > 1) return;
        await queryRunner.startTransaction();
        await kill(queryRunner);
      },
    });
    await locks.withLock(stock.key, () => transact(dataSource, sell));
    expect(await state()).toEqual([false, 99]);
  });

  it('leaves a COMMIT in doubt that is in flight', async () => {
    await createSlowCommitTable(postgres);
    const { dataSource, locks } = await start();
    const sale = locks.withLock(stock.key, () =>
      transact(dataSource, (runner) => runner.query('INSERT INTO slow VALUES (1)')),
    );
    await Promise.all([
      expect(sale).rejects.toBeInstanceOf(LockCommitUnknownError),
      killCommits(postgres),
    ]);
    expect(await isHeld(redis.url, stock.key)).toBe(true);
  });

  it('changes nothing behind its COMMIT', async () => {
    const { dataSource, locks } = await start();
    await locks.withLock(stock.key, async () => {
      const runner = dataSource.createQueryRunner();
      await runner.startTransaction();
      await sell(runner);
      await runner.commitTransaction();
      await kill(runner);
      await transact(dataSource, sell);
    });
    expect(await state()).toEqual([false, 98]);
  });

  it('ends its lock also if the query runner begins once more', async () => {
    const { dataSource, locks } = await start();
    const sale = locks.withLock(stock.key, async () => {
      const runner = dataSource.createQueryRunner();
      await runner.startTransaction();
      await kill(runner);
      await runner.startTransaction();
    });
    await expect(sale).rejects.toThrow(/already released/);
    expect(await state()).toEqual([false, 100]);
  });

  it('with a callback, lets its call try once more', async () => {
    const { dataSource, locks } = await start();
    const work = dyingOnce(kill, sell);
    const once = (): Promise<unknown> =>
      dataSource.transaction(({ queryRunner }) => work(queryRunner as QueryRunner));
    await locks.withLock(stock.key, async () => {
      await expect(once()).rejects.toThrow(/already released/);
      await once();
    });
    expect(await state()).toEqual([false, 99]);
  });
});

it('a nested transaction with a callback says that its connection has died', async () => {
  const { dataSource, locks } = await start();
  const sale = locks.withLock(stock.key, async () => {
    const runner = dataSource.createQueryRunner();
    await runner.startTransaction();
    await runner.manager.transaction(async () => {
      await killUnseen(runner);
      await sell(runner).catch(() => {});
    });
  });
  await expect(sale).rejects.toThrow(/already released/);
  expect(await state()).toEqual([false, 100]);
});

describe('a connection that dies when a nested transaction was the last that was committed', () => {
  const half: Work = async (runner) => {
    await sell(runner);
    await nested(sell)(runner);
  };

  it('makes the call fail whose code does not notice', async () => {
    const { dataSource, locks } = await start();
    const sale = locks.withLock(stock.key, async () => {
      const runner = dataSource.createQueryRunner();
      await runner.startTransaction();
      await half(runner);
      await killUnseen(runner);
    });
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    expect(await state()).toEqual([false, 100]);
  });

  it.each<[string, Work]>([
    ['by its next statement', sell],
    ['by its COMMIT', () => Promise.resolve()],
  ])('does not make it fail if its code is told %s, and tries once more', async (_, last) => {
    const { dataSource, locks } = await start();
    const work = dyingOnce(
      async (runner) => {
        await half(runner);
        await killUnseen(runner);
      },
      (runner) => last(runner),
    );
    await locks.withLock(stock.key, async () => {
      await expect(transact(dataSource, work)).rejects.toThrow(/already released/);
      await transact(dataSource, sell);
    });
    expect(await state()).toEqual([false, 99]);
  });
});

describeWithMariaDb('on MariaDB, where TypeORM leaves the query runner to its code', () => {
  const mariaDb = useMariaDb();
  const shop = useStock(mariaDb, 'mysql');
  const sellThere: Work = (runner) => shop.takeOne(runner);
  const work = (): Work => dyingOnce((runner) => killOnMariaDb(mariaDb, runner), sellThere);

  it.each([
    ['the transaction', (inner: Work) => inner],
    ['a nested one', nested],
  ])('a connection that dies in %s ends its lock', async (_, around) => {
    const dataSource = lockAwareDataSource(await openDataSource('mysql', mariaDb.settings));
    const { locks } = await startLocks(redis.url, { fence: true });
    const selling = around(work());
    await locks.withLock(shop.key, async () => {
      await expect(transact(dataSource, selling)).rejects.toThrow(/closed state/);
      await transact(dataSource, selling);
    });
    expect(await state(shop)).toEqual([false, 99]);
  });

  const startThere = async (fence = true, subscriber: EntitySubscriberInterface = {}) => {
    const dataSource = lockAwareDataSource(await openDataSource('mysql', mariaDb.settings));
    dataSource.subscribers.push(subscriber);
    return { dataSource, locks: (await startLocks(redis.url, { fence })).locks };
  };
  const die = (runner: QueryRunner): Promise<void> => killOnMariaDb(mariaDb, runner);

  it.each(BY_FENCE)('ends its lock although its code does not end it, %s', async (_, fence) => {
    const { dataSource, locks } = await startThere(fence);
    await locks.withLock(shop.key, async () => {
      const runner = dataSource.createQueryRunner();
      await runner.startTransaction();
      await sellThere(runner);
      await die(runner);
    });
    expect(await state(shop)).toEqual([false, 100]);
  });

  it.each<[string, EntitySubscriberInterface]>([
    ['before its COMMIT', { beforeTransactionCommit: ({ queryRunner }) => die(queryRunner) }],
    [
      'while the gate asks the database',
      {
        beforeQuery: ({ query, queryRunner }) =>
          query.startsWith('RELEASE') ? die(queryRunner) : undefined,
      },
    ],
  ])('ends its lock although its code does not end it, %s', async (_, subscriber) => {
    const { dataSource, locks } = await startThere(false, subscriber);
    await locks.withLock(shop.key, async () => {
      const runner = dataSource.createQueryRunner();
      await runner.startTransaction();
      await runner.commitTransaction().catch(() => {});
    });
    expect(await state(shop)).toEqual([false, 100]);
  });

  const fail = async (runner: QueryRunner, fatal: boolean): Promise<void> => {
    const connection = (await runner.connect()) as EventEmitter;
    connection.emit('error', Object.assign(new Error('unexpected'), { fatal }));
  };

  it('takes nothing more behind an error that its driver calls fatal', async () => {
    const { dataSource, locks } = await startThere();
    const sale = locks.withLock(shop.key, () =>
      transact(dataSource, async (runner) => {
        await fail(runner, true);
        await sellThere(runner);
      }),
    );
    await expect(sale).rejects.toThrow(/closed state/);
    expect(await state(shop)).toEqual([false, 100]);
  });

  it('continues behind another error', async () => {
    const { dataSource, locks } = await startThere();
    await locks.withLock(shop.key, () =>
      transact(dataSource, async (runner) => {
        await fail(runner, false);
        expect(await isHeld(redis.url, shop.key)).toBe(true);
        await sellThere(runner);
        await locks.forceRelease(shop.key);
      }).catch((error: unknown) => expect(error).toBeInstanceOf(LockLostError)),
    );
    expect(await shop.quantity()).toBe(100);
  });
});
