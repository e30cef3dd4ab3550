/** Once a transaction has ended, nothing makes it run again: its caller is told how it has ended. */
import { expect, it } from '@jest/globals';
import type { LockService } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { DataSource } from 'typeorm';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { usePostgres } from '../support/databases.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

/** Begins a second transaction, which outlives the one around it and asks for a lock until it is told why not. */
async function straggle(dataSource: DataSource, locks: LockService) {
  const begun = makeGate();
  const sold = makeGate();
  const straggler = dataSource.transaction(async () => {
    begun.open();
    await sold.opened;
    for (;;) {
      const { message } = await locks
        .withLock(uniqueKey('late'), () => new Error('it ran'))
        .catch((error: Error) => error);
      if (!/is being (committed|rolled back)/.test(message)) return message;
      await nextTurn();
    }
  });
  const answer = straggler.catch((error: Error) => error.message);
  await begun.opened;
  return { sold, answer };
}

it.each([
  ['restart', 'a hook that fails'],
  ['restart', 'a hook'],
  ['join', 'a hook that fails'],
  ['join', 'a hook'],
] as const)(
  'Code that requests a lock behind the COMMIT repeats nothing, nor does it free the key (%s, %s)',
  async (insideTransaction, hook) => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
    const { locks } = await startLocks(redis.url, { insideTransaction: 'restart' });
    const options = { insideTransaction, holdAtLeastMs: 60_000 };
    let runs = 0;
    let straggling: Awaited<ReturnType<typeof straggle>> | undefined;
    let hasSold = false;
    dataSource.subscribers.push({
      async afterTransactionCommit() {
        if (!hasSold) return;
        hasSold = false;
        straggling?.sold.open();
        // What the ORM does next takes round trips, while the code left behind asks again and again.
        await sleep(50);
        if (hook === 'a hook that fails') throw new Error('behind the COMMIT');
      },
    } as never);
    const sale = dataSource.transaction(async (manager) => {
      runs++;
      const joined = { insideTransaction: 'join' } as const;
      await locks.withLock(uniqueKey('joined'), joined, () => {});
      await locks.withLock(stock.key, options, () => stock.takeOne(manager));
      straggling ??= await straggle(dataSource, locks);
      hasSold = true;
    });
    const told = await sale.catch((error: Error) => error.message);
    expect(told).toBe(hook === 'a hook that fails' ? 'behind the COMMIT' : undefined);
    expect(await straggling?.answer).toMatch(/cannot be restarted, because .* has ended already/);
    expect([runs, await stock.quantity()]).toEqual([insideTransaction === 'join' ? 1 : 2, 99]);
    expect(await isHeld(redis.url, stock.key)).toBe(true);
  },
);

it.each(['restart', 'join'] as const)(
  'Code that requests a lock behind the ROLLBACK repeats nothing, and the caller is told what has failed (%s)',
  async (insideTransaction) => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
    const { locks } = await startLocks(redis.url, { insideTransaction: 'restart' });
    let runs = 0;
    let straggling: Awaited<ReturnType<typeof straggle>> | undefined;
    dataSource.subscribers.push({
      async afterTransactionRollback() {
        if (straggling === undefined) return;
        straggling.sold.open();
        await sleep(50);
      },
    } as never);
    const sale = dataSource.transaction(async (manager) => {
      runs++;
      await locks.withLock(uniqueKey('joined'), { insideTransaction: 'join' }, () => {});
      await locks.withLock(stock.key, { insideTransaction }, () => stock.takeOne(manager));
      straggling ??= await straggle(dataSource, locks);
      throw new Error('no credit');
    });
    await expect(sale).rejects.toThrow('no credit');
    expect(await straggling?.answer).toMatch(/cannot be restarted, because .* has ended already/);
    expect([runs, await stock.quantity()]).toEqual([insideTransaction === 'join' ? 1 : 2, 100]);
  },
);

/** A third transaction, begun in a second one that ends at once. */
async function beginThird(dataSource: DataSource, work: () => Promise<unknown>) {
  const mayWork = makeGate();
  const { working } = await dataSource.transaction(async () => {
    const begun = makeGate();
    const third = dataSource.transaction(async () => {
      begun.open();
      await mayWork.opened;
      return work();
    });
    third.catch(() => {});
    await begun.opened;
    return { working: third };
  });
  return { working, mayWork };
}

it('Code that has outlived no more than a second transaction has the first one run again', async () => {
  const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
  const { locks } = await startLocks(redis.url, { insideTransaction: 'restart' });
  const late = uniqueKey('late');
  let runs = 0;
  await dataSource.transaction(async (manager) => {
    runs++;
    await locks.withLock(uniqueKey('joined'), { insideTransaction: 'join' }, () => {});
    const { working, mayWork } = await beginThird(dataSource, () =>
      locks.withLock(late, () => stock.takeOne(manager)),
    );
    mayWork.open();
    await working;
  });
  expect([runs, await stock.quantity()]).toEqual([2, 99]);
});

it.each(['COMMIT', 'ROLLBACK'])(
  'Code that requests a lock at the %s repeats nothing, although a second transaction between has ended',
  async (end) => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
    const { locks } = await startLocks(redis.url, { insideTransaction: 'restart' });
    let third: Awaited<ReturnType<typeof beginThird>> | undefined;
    const ending = async (): Promise<void> => {
      const asking = third;
      third = undefined;
      if (asking === undefined) return;
      asking.mayWork.open();
      await asking.working.catch(() => {});
      throw new Error('behind the end');
    };
    dataSource.subscribers.push({
      afterTransactionCommit: ending,
      afterTransactionRollback: ending,
    } as never);
    let runs = 0;
    const sale = dataSource.transaction(async (manager) => {
      if (runs++ > 0) return;
      await locks.withLock(uniqueKey('joined'), { insideTransaction: 'join' }, () =>
        stock.takeOne(manager),
      );
      const begun = await beginThird(dataSource, () => locks.withLock(uniqueKey('late'), () => {}));
      third = begun;
      if (end === 'ROLLBACK') throw new Error('no credit');
    });
    await expect(sale).rejects.toThrow(end === 'COMMIT' ? 'behind the end' : 'no credit');
    expect([runs, await stock.quantity()]).toEqual([1, end === 'COMMIT' ? 99 : 100]);
  },
);

it('A key that is taken behind the end of a second transaction is kept until the first has ended', async () => {
  const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 12));
  const { locks } = await startLocks(redis.url, { insideTransaction: 'join' });
  const sell = (): Promise<void> =>
    dataSource.transaction(async (manager) => {
      const { working, mayWork } = await beginThird(dataSource, () =>
        locks.withLock(stock.key, { waitMs: 10_000 }, () => stock.takeOne(manager)),
      );
      mayWork.open();
      await working;
      await sleep(50);
    });
  await Promise.all([sell(), sell(), sell()]);
  expect(await stock.quantity()).toBe(97);
});
