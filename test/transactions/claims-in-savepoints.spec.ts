import { describe, expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { DataSource, EntityManager } from 'typeorm';
import { AsyncResource } from 'node:async_hooks';
import { usePostgres } from '../support/databases.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

type Handle = Awaited<ReturnType<LockService['acquire']>>;

interface Started {
  readonly dataSource: DataSource;
  /** Acquired elsewhere: no transaction is opened where a lock was acquired. */
  readonly lock: Handle;
}

async function start(insideTransaction: 'reject' | 'restart' | 'join'): Promise<Started> {
  const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
  const { locks } = await startLocks(redis.url, { fence: true, insideTransaction });
  const elsewhere = new AsyncResource('elsewhere');
  return { dataSource, lock: await elsewhere.runInAsyncScope(() => locks.acquire(stock.key)) };
}

/** A nested transaction that is rolled back. */
async function rolledBack(manager: EntityManager, work: () => Promise<unknown>): Promise<void> {
  const nested = manager.transaction(async () => {
    await work();
    throw new Error('back to the savepoint');
  });
  await expect(nested).rejects.toThrow('back to the savepoint');
}

/** What the transaction sees of its claim. */
async function claimIn(manager: EntityManager): Promise<number> {
  const rows: { token: string }[] = await manager.query(
    'SELECT token FROM lock_fence WHERE lock_key = $1',
    [stock.key],
  );
  return Number(rows[0]?.token);
}

describe('the claim of a lock that was acquired before its transaction', () => {
  it.each(['reject', 'restart', 'join'] as const)(
    'is made again after a savepoint has taken it back, under %s',
    async (insideTransaction) => {
      const { dataSource, lock } = await start(insideTransaction);
      await dataSource.transaction(async (manager) => {
        await rolledBack(manager, () => lock.run(() => stock.takeOne(manager)));
        await lock.run(async () => {
          expect(await claimIn(manager)).toBe(lock.fencingToken);
          await stock.takeOne(manager);
        });
      });
      expect([await stock.quantity(), await stock.fence()]).toEqual([99, lock.fencingToken]);
      await lock.release();
    },
  );

  it('stays with a savepoint that was not rolled back', async () => {
    const { dataSource, lock } = await start('reject');
    await dataSource.transaction(async (manager) => {
      await manager.transaction((nested) => lock.run(() => stock.takeOne(nested)));
      await rolledBack(manager, () => lock.run(() => stock.takeOne(manager)));
    });
    expect([await stock.quantity(), await stock.fence()]).toEqual([99, lock.fencingToken]);
    await lock.release();
  });

  it('is made again before COMMIT if its work continues beside the rollback', async () => {
    const { dataSource, lock } = await start('reject');
    const [claimed, undone] = [makeGate(), makeGate()];
    await dataSource.transaction(async (manager) => {
      let sold: Promise<void> | undefined;
      await rolledBack(manager, async () => {
        sold = lock.run(async () => {
          claimed.open();
          await undone.opened;
          await stock.takeOne(manager);
        });
        await claimed.opened;
      });
      undone.open();
      await sold;
    });
    expect([await stock.quantity(), await stock.fence()]).toEqual([99, lock.fencingToken]);
    await lock.release();
  });

  it('is made once for a transaction that has made it before its savepoints', async () => {
    const { dataSource, lock } = await start('reject');
    await dataSource.transaction(async (manager) => {
      const sent: string[] = [];
      await lock.run(() => stock.takeOne(manager));
      dataSource.subscribers.push({ beforeQuery: ({ query }) => void sent.push(query) });
      await rolledBack(manager, () => lock.run(() => stock.takeOne(manager)));
      await lock.run(() => stock.takeOne(manager));
      expect(sent).not.toHaveLength(0);
      expect(sent.filter((query) => query.includes('lock_fence'))).toEqual([]);
    });
    expect([await stock.quantity(), await stock.fence()]).toEqual([98, lock.fencingToken]);
    await lock.release();
  });
});

describe('the claim of a lock that was taken inside its transaction', () => {
  it('is enough for work under it in a savepoint, too', async () => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
    const { locks } = await startLocks(redis.url, { fence: true, insideTransaction: 'join' });
    await dataSource.transaction('READ COMMITTED', async (manager) => {
      const lock = await locks.acquire(stock.key);
      await lock.run(() => stock.takeOne(manager));
      await manager.transaction((nested) => lock.run(() => stock.takeOne(nested)));
      await lock.release();
    });
    expect(await stock.quantity()).toBe(98);
  });
});
