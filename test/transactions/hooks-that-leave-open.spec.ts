import { describe, expect, it } from '@jest/globals';
import { LockInTransactionError } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { DataSource, EntityManager, EntitySubscriberInterface, QueryRunner } from 'typeorm';
import { type TestDatabase, useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

type How = 'with TypeORM alone' | 'without a lock' | 'under a lock' | 'under a fenced lock';
type Act = (runner: QueryRunner) => Promise<unknown>;

/** Over a pool of one connection. Each hook acts once. */
async function start(
  how: How,
  hooks: Record<string, Act>,
  type: 'postgres' | 'mysql' = 'postgres',
  database: TestDatabase = postgres,
) {
  const plain = await openDataSource(type, database.settings, 1);
  const dataSource = how === 'with TypeORM alone' ? plain : lockAwareDataSource(plain);
  const { locks } = await startLocks(redis.url, how === 'under a fenced lock' ? { fence: {} } : {});
  const subscriber: EntitySubscriberInterface = {};
  for (const [hook, act] of Object.entries(hooks)) {
    let isDone = false;
    const once = async ({ queryRunner }: { readonly queryRunner: QueryRunner }): Promise<void> => {
      if (isDone) return;
      isDone = true;
      await act(queryRunner);
    };
    Object.assign(subscriber, { [hook]: once });
  }
  dataSource.subscribers.push(subscriber);
  const call = <T>(work: () => Promise<T>, key = stock.key): Promise<T> =>
    how.startsWith('under') ? locks.withLock(key, work) : work();
  return { dataSource, call };
}

/** @returns the name of its error */
const told = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'done',
    (error: Error) => error.constructor.name,
  );

/** To sell the same product once more. */
async function restock(): Promise<void> {
  await postgres.query('UPDATE stock SET quantity = 100 WHERE id = $1', [stock.product]);
}

class Planned extends Error {}

async function sellOn(runner: QueryRunner, from = stock): Promise<void> {
  await runner.startTransaction();
  await from.takeOne(runner.manager);
  await runner.commitTransaction();
}

describe('a hook at the start that ends the transaction', () => {
  const ENDS: Record<string, Act> = {
    'by ROLLBACK': (runner) => runner.rollbackTransaction(),
    'by COMMIT': (runner) => runner.commitTransaction(),
    'by a nested one after an error that it swallows': async ({ manager }) => {
      await manager.query('INSERT INTO there_is_none VALUES (1)').catch(() => {});
      await manager.transaction((nested) => stock.takeOne(nested)).catch(() => {});
    },
    'and begins another one': async (runner) => {
      await runner.rollbackTransaction();
      await runner.startTransaction();
    },
  };

  /** Sells one, and then one more on the same query runner. @returns what was told of both, and what is sold */
  async function sellTwo(how: How, act: Act): Promise<unknown[]> {
    const { dataSource, call } = await start(how, { afterTransactionStart: act });
    const outcome = await call(async () => {
      const runner = dataSource.createQueryRunner();
      const tried = [await told(sellOn(runner)), await told(sellOn(runner))];
      await runner.release();
      return tried;
    });
    expect(await isHeld(redis.url, stock.key)).toBe(false);
    return [...outcome, 100 - (await stock.quantity())];
  }

  describe.each(Object.entries(ENDS))('%s', (_, act) => {
    it.each(['under a lock', 'under a fenced lock'] as const)(
      'makes its start fail, and keeps neither the lock nor the next one waiting, %s [D89]',
      async (how) => {
        expect(await sellTwo(how, act)).toEqual([LockInTransactionError.name, 'done', 1]);
      },
    );

    it('makes its start fail under a lock, also where the driver does not say that it has ended', async () => {
      const { dataSource, call } = await start('under a lock', {
        afterTransactionStart: async (runner) => {
          Object.assign(await runner.connect(), { getTransactionStatus: undefined });
          await act(runner);
        },
      });
      const runner = dataSource.createQueryRunner();
      const tried = await call(async () => [
        await told(sellOn(runner)),
        await told(sellOn(runner)),
      ]);
      await runner.release();
      expect([...tried, await stock.quantity()]).toEqual([LockInTransactionError.name, 'done', 99]);
    });

    it('changes nothing without a lock', async () => {
      const alone = await sellTwo('with TypeORM alone', act);
      expect(alone.at(-1)).toBe(2);
      await restock();
      expect(await sellTwo('without a lock', act)).toEqual(alone);
    });
  });
});

type Work = (manager: EntityManager) => Promise<void>;
const SHAPES: Record<string, (dataSource: DataSource, work: Work) => Promise<void>> = {
  'with a callback': (dataSource, work) => dataSource.transaction(work),
  'with a callback on a query runner': async (dataSource, work) => {
    const runner = dataSource.createQueryRunner();
    await runner.manager.transaction(work).finally(() => runner.release());
  },
  'by hand': async (dataSource, work) => {
    const runner = dataSource.createQueryRunner();
    try {
      await runner.startTransaction();
      try {
        await work(runner.manager);
        await runner.commitTransaction();
      } catch (error) {
        await runner.rollbackTransaction();
        throw error;
      }
    } finally {
      await runner.release();
    }
  },
};

/** A failed transaction, and the next one of the pool, which commits what is open. @returns how many are sold */
async function soldAfter(shape: string, how: How, hook: string, act: Act): Promise<number> {
  const { dataSource, call } = await start(how, { [hook]: act });
  const work = async (manager: EntityManager): Promise<void> => {
    await stock.takeOne(manager);
    throw new Planned();
  };
  expect(await told(call(async () => SHAPES[shape]?.(dataSource, work)))).toBe(Planned.name);
  await dataSource.transaction((manager) => manager.query('SELECT 1'));
  return 100 - (await stock.quantity());
}

describe.each(Object.keys(SHAPES))('a transaction that fails %s', (shape) => {
  const FAILS: [hook: string, name: string, act: Act][] = [
    [
      'afterTransactionStart',
      'fails in a savepoint that it leaves open',
      async (runner) => {
        await stock.takeOne(runner.manager);
        await runner.startTransaction();
        throw new Planned();
      },
    ],
    [
      'beforeTransactionStart',
      'fails in a transaction that it leaves open',
      async (runner) => {
        await runner.startTransaction();
        await stock.takeOne(runner.manager);
        throw new Planned();
      },
    ],
    ['beforeTransactionRollback', 'leaves a savepoint open', (runner) => runner.startTransaction()],
  ];

  it.each(FAILS)(
    'leaves nothing to the next one under a lock: %s %s [D88]',
    async (hook, _, act) => {
      expect(await soldAfter(shape, 'under a lock', hook, act)).toBe(0);
    },
  );

  // Also without a lock, the ROLLBACK is sure with a callback, and what is begun by hand ends with its query runner.
  const sure = shape === 'by hand' ? 'beforeTransactionStart' : 'beforeTransactionRollback';
  const asTypeOrm = FAILS.filter(([hook]) => hook !== sure);
  it.each(asTypeOrm)('is as with TypeORM alone without a lock: %s %s', async (hook, _, act) => {
    const alone = await soldAfter(shape, 'with TypeORM alone', hook, act);
    await restock();
    expect(await soldAfter(shape, 'without a lock', hook, act)).toBe(alone);
  });
});

it('a hook that begins the next one after a failed start keeps it', async () => {
  const { dataSource, call } = await start('under a lock', {
    afterTransactionStart: () => Promise.reject(new Planned()),
    afterTransactionRollback: (runner) => runner.startTransaction(),
  });
  await call(async () => {
    const runner = dataSource.createQueryRunner();
    expect(await told(runner.manager.transaction(async () => {}))).toBe(Planned.name);
    await stock.takeOne(runner.manager);
    await runner.commitTransaction();
    await runner.release();
  });
  expect(await stock.quantity()).toBe(99);
});

describeWithMariaDb('a hook at the start that ends the transaction on MariaDB', () => {
  const mariaDb = useMariaDb();
  const shop = useStock(mariaDb, 'mysql');

  it.each(['rollbackTransaction', 'commitTransaction'] as const)(
    'makes its start fail under a lock, and the next one is begun: %s()',
    async (act) => {
      const { dataSource, call } = await start(
        'under a lock',
        { afterTransactionStart: (runner) => runner[act]() },
        'mysql',
        mariaDb,
      );
      const tried = await call(async () => {
        const runner = dataSource.createQueryRunner();
        const outcomes = [await told(sellOn(runner, shop)), await told(sellOn(runner, shop))];
        await runner.release();
        return outcomes;
      }, shop.key);
      expect(tried).toEqual([LockInTransactionError.name, 'done']);
      expect(await shop.quantity()).toBe(99);
    },
  );
});
