import { describe, expect, it } from '@jest/globals';
import { LockCommitUnknownError } from 'nestjs-locked';
import { lockAware } from 'nestjs-locked/typeorm';
import type { DataSource, EntitySubscriberInterface, QueryRunner } from 'typeorm';
import { usePostgres } from '../support/databases.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

async function start(subscriber: EntitySubscriberInterface) {
  const dataSource = lockAware(await openDataSource('postgres', postgres.settings));
  const { locks } = await startLocks(redis.url, { fence: true });
  dataSource.subscribers.push(subscriber);
  return { dataSource, locks };
}

/** Whether the lock is held, and what is left of the product. */
const state = async (): Promise<unknown> => [
  await isHeld(redis.url, stock.key),
  await stock.quantity(),
];

/** The database ends the connection, as it does with one that was idle for too long. */
async function disconnect({ queryRunner }: { queryRunner: QueryRunner }): Promise<void> {
  const [row] = (await queryRunner.query('SELECT pg_backend_pid() AS pid')) as { pid: number }[];
  await postgres.query('SELECT pg_terminate_backend($1::int)', [row?.pid]);
  await eventually(() => expect(queryRunner.isReleased).toBe(true));
}

const sellByHand = async (dataSource: DataSource): Promise<void> => {
  const runner = dataSource.createQueryRunner();
  try {
    await runner.startTransaction();
    await stock.takeOne(runner);
    await runner.commitTransaction();
  } finally {
    await runner.release();
  }
};

describe('a COMMIT that was not sent is not in doubt', () => {
  it.each([
    [
      'with a callback',
      (dataSource: DataSource) => dataSource.transaction((manager) => stock.takeOne(manager)),
    ],
    ['by hand', sellByHand],
  ] as const)('because a hook before it lost the connection: %s', async (_, sell) => {
    const { dataSource, locks } = await start({ beforeTransactionCommit: disconnect });
    const sale = locks.withLock(stock.key, () => sell(dataSource));
    await expect(sale).rejects.toThrow(/already released/);
    await expect(sale).rejects.not.toBeInstanceOf(LockCommitUnknownError);
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
