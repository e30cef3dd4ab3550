import { describe, expect, it } from '@jest/globals';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import {
  type DataSource,
  type EntityManager,
  type EntitySubscriberInterface,
  type QueryRunner,
  QueryRunnerProviderAlreadyReleasedError,
} from 'typeorm';
import { setTimeout as sleep } from 'node:timers/promises';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

const HOOKS = ['afterTransactionCommit', 'afterTransactionRollback'] as const;

class Planned extends Error {}

/** What the hook does with the query runner, and how many it sells. */
const IN_HOOK: Record<string, [sold: number, act: (runner: QueryRunner) => Promise<unknown>]> = {
  'begins and commits by hand': [
    1,
    async (runner) => {
      await runner.startTransaction();
      await stock.takeOne(runner.manager);
      await runner.commitTransaction();
    },
  ],
  'begins and rolls back by hand': [
    0,
    async (runner) => {
      await runner.startTransaction();
      await stock.takeOne(runner.manager);
      await runner.rollbackTransaction();
    },
  ],
  'opens one with a callback': [
    1,
    ({ manager }) => manager.transaction((inner) => stock.takeOne(inner)),
  ],
  'opens one with a callback, and a nested one': [
    1,
    ({ manager }) =>
      manager.transaction((inner) => inner.transaction((nested) => stock.takeOne(nested))),
  ],
  'opens one with a callback that fails in an open savepoint': [
    0,
    ({ manager }) =>
      manager
        .transaction(async (inner) => {
          await stock.takeOne(inner);
          await inner.queryRunner?.startTransaction();
          throw new Planned();
        })
        .catch(expectPlanned),
  ],
};

type Work = (manager: EntityManager) => Promise<void>;

/** The ways to open the first one, and the one after it. */
const FIRST: Record<
  string,
  (dataSource: DataSource, runner: QueryRunner, work: Work) => Promise<void>
> = {
  'by hand': async (_, runner, work) => {
    await runner.startTransaction();
    try {
      await work(runner.manager);
      await runner.commitTransaction();
    } catch (error) {
      await runner.rollbackTransaction();
      throw error;
    }
  },
  'with a callback on a query runner of its own': (_, { manager }, work) =>
    manager.transaction(work),
  'with a callback': (dataSource, _, work) => dataSource.transaction(work),
};

const HOW = ['without a lock', 'under a lock'] as const;

async function start(how: (typeof HOW)[number], poolSize: number) {
  const dataSource = lockAwareDataSource(
    await openDataSource('postgres', postgres.settings, poolSize),
  );
  const { locks } = await startLocks(redis.url, { fence: true });
  const call = <T>(work: () => Promise<T>): Promise<T> =>
    how === 'without a lock' ? work() : locks.withLock(stock.key, work);
  return { dataSource, call };
}

/** Acts in the hook after the first transaction. */
function actOnce(
  { subscribers }: DataSource,
  hook: string,
  act: (runner: QueryRunner) => unknown,
): void {
  let isDone = false;
  const subscriber: EntitySubscriberInterface = {
    [hook]: ({ queryRunner }: { readonly queryRunner: QueryRunner }) => {
      if (isDone || queryRunner.isTransactionActive) return undefined;
      isDone = true;
      return act(queryRunner);
    },
  };
  subscribers.push(subscriber);
}

/** Sells one, or, if the hook is the one after a rollback, fails. */
const firstOf =
  (hook: string): Work =>
  async (manager) => {
    await stock.takeOne(manager);
    if (hook === 'afterTransactionRollback') throw new Planned();
  };

const expectPlanned = (error: unknown): void => expect(error).toBeInstanceOf(Planned);
const leftAfter = (hook: string): number => (hook === 'afterTransactionCommit' ? 99 : 100);

describe.each(HOOKS)('%s', (hook) => {
  describe.each(Object.entries(FIRST))('of a transaction %s', (name, open) => {
    describe.each(Object.entries(IN_HOOK))('%s', (what, [sold, act]) => {
      // Without a lock, TypeORM gives back a connection there that is still in its transaction.
      const isTypeOrms = name === 'with a callback' && what.endsWith('in an open savepoint');
      it.each(isTypeOrms ? HOW.slice(1) : HOW)('%s', async (how) => {
        const { dataSource, call } = await start(how, 2);
        let inHook: Promise<unknown> | undefined;
        actOnce(dataSource, hook, (runner) => (inHook = act(runner)));
        const runner = dataSource.createQueryRunner();
        await call(async () => {
          const first = open(dataSource, runner, firstOf(hook));
          await (hook === 'afterTransactionRollback' ? first.catch(expectPlanned) : first);
          await open(dataSource, runner, (manager) => stock.takeOne(manager));
        });
        await inHook;
        expect([inHook !== undefined, runner.isTransactionActive]).toEqual([true, false]);
        await runner.release();
        expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([
          leftAfter(hook) - sold - 1,
          false,
        ]);
      });
    });
  });

  it.each(HOW)('is not awaited with the next one, which is not written: %s', async (how) => {
    const { dataSource, call } = await start(how, 1);
    let inHook: Promise<unknown> | undefined;
    actOnce(dataSource, hook, ({ manager }) => {
      inHook = manager
        .transaction((inner) =>
          inner.query('UPDATE stock SET quantity = 0 WHERE id = $1', [stock.product]),
        )
        .catch((error: unknown) => error);
    });
    const first = call(() => dataSource.transaction(firstOf(hook)));
    await (hook === 'afterTransactionRollback' ? first.catch(expectPlanned) : first);
    expect(await inHook).toBeInstanceOf(QueryRunnerProviderAlreadyReleasedError);
    expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([
      leftAfter(hook),
      false,
    ]);
  });

  it.each(HOW)('begins one that continues after it, with a nested one: %s', async (how) => {
    const { dataSource, call } = await start(how, 1);
    actOnce(dataSource, hook, (runner) => runner.startTransaction());
    const runner = dataSource.createQueryRunner();
    await call(async () => {
      await runner.startTransaction();
      await stock.takeOne(runner.manager);
      if (hook === 'afterTransactionRollback') await runner.rollbackTransaction();
      else await runner.commitTransaction();
      await runner.startTransaction();
      await stock.takeOne(runner.manager);
      await runner.commitTransaction();
      await runner.commitTransaction();
    });
    await runner.release();
    expect(await stock.quantity()).toBe(leftAfter(hook) - 1);
  });
});

describe('afterTransactionCommit', () => {
  it.each(Object.keys(FIRST))(
    'may commit the next one behind a statement that is not answered, and continue for longer than a lease: %s',
    async (name) => {
      const dataSource = lockAwareDataSource(
        await openDataSource('postgres', postgres.settings, 2),
      );
      const { locks } = await startLocks(redis.url, { leaseMs: 1_000, transactionTimeouts: false });
      const seen: unknown[] = [];
      actOnce(dataSource, 'afterTransactionCommit', async (runner) => {
        await runner.query('BEGIN');
        const slow = runner.query('SELECT pg_sleep(0.2)');
        await runner.query('COMMIT');
        await slow;
        await sleep(2_000);
        seen.push(await runner.query('SELECT 1 AS one'));
      });
      const runner = dataSource.createQueryRunner();
      await locks.withLock(stock.key, () =>
        FIRST[name]?.(dataSource, runner, (manager) => stock.takeOne(manager)),
      );
      await runner.release();
      expect([seen, await stock.quantity()]).toEqual([[[{ one: 1 }]], 99]);
    },
  );
});
