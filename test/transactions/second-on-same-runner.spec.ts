import { describe, expect, it } from '@jest/globals';
import { LockLostError } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { EntitySubscriberInterface, QueryRunner } from 'typeorm';
import { usePostgres } from '../support/databases.js';
import { eventually } from '../support/eventually.js';
import { useRedis } from '../support/shared-redis.js';
import { spyOnWarnings } from '../support/spy-on-warnings.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

const HOOKS = ['afterTransactionCommit', 'afterTransactionRollback'] as const;

type Hook = (event: { readonly queryRunner: QueryRunner }) => Promise<unknown>;

/** Calls the hook after the first transaction. */
async function start(name: (typeof HOOKS)[number], hook: Hook) {
  const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
  const { locks } = await startLocks(redis.url, { fence: true });
  let calls = 0;
  const subscriber: EntitySubscriberInterface = {
    [name]: (event: { readonly queryRunner: QueryRunner }) =>
      !event.queryRunner.isTransactionActive && ++calls === 1 ? hook(event) : undefined,
  };
  dataSource.subscribers.push(subscriber);
  return { dataSource, locks };
}

async function sellOn(runner: QueryRunner): Promise<void> {
  await runner.startTransaction();
  await stock.takeOne(runner.manager);
  await runner.commitTransaction();
}

const told = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'done',
    (error: unknown) => error,
  );

const left = (hook: string): number => (hook === 'afterTransactionCommit' ? 99 : 100);

describe('a second transaction that a hook after the end begins on the same query runner', () => {
  /** The first one, which sells one or is rolled back. */
  const runFirst = async (hook: string, runner: QueryRunner): Promise<void> => {
    await runner.startTransaction();
    await stock.takeOne(runner.manager);
    if (hook === 'afterTransactionCommit') await runner.commitTransaction();
    else await runner.rollbackTransaction();
  };

  it.each(HOOKS)('by hand is guarded: %s', async (hook) => {
    let lose: () => Promise<void> = () => Promise.resolve();
    let inHook: unknown;
    const { dataSource, locks } = await start(hook, async ({ queryRunner }) => {
      inHook = await told(
        (async () => {
          await queryRunner.startTransaction();
          await stock.takeOne(queryRunner.manager);
          await lose();
          await queryRunner.commitTransaction();
        })(),
      );
      if (queryRunner.isTransactionActive) await queryRunner.rollbackTransaction();
    });
    const runner = dataSource.createQueryRunner();
    const work = locks.withLock(stock.key, async (lock) => {
      lose = async () => {
        await locks.forceRelease(stock.key);
        await eventually(() => expect(lock.isHeld).toBe(false));
      };
      await runFirst(hook, runner);
    });
    await told(work);
    await runner.release();
    expect(inHook).toBeInstanceOf(LockLostError);
    expect(await stock.quantity()).toBe(left(hook));
  });

  it.each(HOOKS)('by hand is committed, and so is the next one: %s', async (hook) => {
    const { dataSource, locks } = await start(hook, ({ queryRunner }) => sellOn(queryRunner));
    const runner = dataSource.createQueryRunner();
    await locks.withLock(stock.key, async () => {
      await runFirst(hook, runner);
      await sellOn(runner);
    });
    await runner.release();
    expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([
      left(hook) - 2,
      false,
    ]);
  });

  it.each(HOOKS)('by hand may continue after the hook: %s', async (hook) => {
    const { dataSource, locks } = await start(hook, async ({ queryRunner }) => {
      await queryRunner.startTransaction();
      await stock.takeOne(queryRunner.manager);
    });
    const runner = dataSource.createQueryRunner();
    await locks.withLock(stock.key, () => runFirst(hook, runner));
    expect(await isHeld(redis.url, stock.key)).toBe(true); // it lasts until the second one has ended
    await runner.commitTransaction();
    expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([
      left(hook) - 1,
      false,
    ]);
    await runner.release();
  });

  it.each(HOOKS)('of a transaction with a callback is warned of: %s', async (hook) => {
    const { dataSource, locks } = await start(hook, ({ queryRunner }) => sellOn(queryRunner));
    const warnings = spyOnWarnings();
    const sell = (): Promise<void> =>
      dataSource.transaction(async (manager) => {
        await manager.transaction((nested) => stock.takeOne(nested));
        if (hook === 'afterTransactionRollback') throw new Error('no money');
      });
    await told(locks.withLock(stock.key, sell));
    expect(warnings()).toEqual([expect.stringContaining('outside of a transaction')]);
  });
});
