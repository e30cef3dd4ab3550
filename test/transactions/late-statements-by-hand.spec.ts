import { describe, expect, it } from '@jest/globals';
import { LockInTransactionError } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { QueryRunner } from 'typeorm';
import { useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();

type Hook = `${'before' | 'after'}Transaction${'Commit' | 'Rollback'}`;

function describeBranches(
  type: 'postgres' | 'mysql',
  useDatabase: typeof usePostgres | typeof useMariaDb,
): void {
  const database = useDatabase();
  const stock = useStock(database, type);
  const add = (runner: QueryRunner): Promise<unknown> =>
    runner.query(`UPDATE stock SET quantity = quantity + 1000 WHERE id = '${stock.product}'`);

  /**
   * A transaction that takes one piece, has a branch that nobody awaits, and is ended.
   *
   * @param hook of TypeORM, in which the branch continues
   * @param act what the hook itself does
   * @returns what the branch is told
   */
  const transaction = async (
    hook: Hook,
    ways: { readonly locked: boolean; readonly act?: (runner: QueryRunner) => Promise<unknown> },
  ): Promise<unknown> => {
    const dataSource = lockAwareDataSource(await openDataSource(type, database.settings, 1));
    const { locks } = await startLocks(redis.url, { fence: true });
    const { opened: goesOn, open: goOn } = makeGate();
    let branch: Promise<unknown> | undefined;
    dataSource.subscribers.push({
      [hook]: async ({ queryRunner }: { queryRunner: QueryRunner }) => {
        await ways.act?.(queryRunner);
        goOn();
        await branch;
      },
    });
    const sell = async (): Promise<void> => {
      const runner = dataSource.createQueryRunner();
      await runner.startTransaction();
      await stock.takeOne(runner.manager);
      branch = goesOn
        .then(() => add(runner))
        .then(
          () => 'done',
          (error: unknown) => error,
        );
      await (hook.endsWith('Commit') ? runner.commitTransaction() : runner.rollbackTransaction());
      await runner.release();
    };
    await (ways.locked ? locks.withLock(stock.key, sell) : sell());
    expect(await isHeld(redis.url, stock.key)).toBe(false);
    return branch;
  };

  it.each<[Hook, number]>([
    ['beforeTransactionCommit', 99],
    ['afterTransactionCommit', 99],
    ['beforeTransactionRollback', 100],
    ['afterTransactionRollback', 100],
  ])('sends nothing under a lock in %s', async (hook, left) => {
    const told = await transaction(hook, { locked: true });
    expect(told).toBeInstanceOf(LockInTransactionError);
    expect(await stock.quantity()).toBe(left);
  });

  it.each<[Hook, number]>([
    ['afterTransactionCommit', 1099],
    ['afterTransactionRollback', 1100],
  ])('sends without a lock in %s what it sends without the library', async (hook, left) => {
    expect(await transaction(hook, { locked: false })).toBe('done');
    expect(await stock.quantity()).toBe(left);
  });

  it.each<[Hook, number]>([
    ['beforeTransactionCommit', 1099],
    ['afterTransactionCommit', 1099],
    ['afterTransactionRollback', 1100],
  ])('does not keep %s itself from sending', async (hook, left) => {
    await transaction(hook, { locked: true, act: add });
    expect(await stock.quantity()).toBe(left);
  });
}

describe('a branch that nobody awaits, of a query runner driven manually, on PostgreSQL', () =>
  describeBranches('postgres', usePostgres));

describeWithMariaDb('the same on MariaDB', () => describeBranches('mysql', useMariaDb));
