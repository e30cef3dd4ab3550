/** What the channels say of locks that are requested inside a transaction, and of transactions that are refused. */
import { describe, expect, it } from '@jest/globals';
import type { LockAcquireMessage, LockEventMessage } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { channel, tracingChannel } from 'node:diagnostics_channel';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { startLocks } from './locks.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

function listen() {
  const calls: LockAcquireMessage[] = [];
  const transactions: LockEventMessage['event'][] = [];
  const answered = (message: unknown): void =>
    void calls.push({ ...(message as LockAcquireMessage) });
  const happened = (message: unknown): void => {
    const { event } = message as LockEventMessage;
    if (event.type === 'transaction') transactions.push(event);
  };
  const { asyncEnd } = tracingChannel('nestjs-locked:acquire');
  asyncEnd.subscribe(answered);
  channel('nestjs-locked:event').subscribe(happened);
  afterTest(() => asyncEnd.unsubscribe(answered));
  afterTest(() => channel('nestjs-locked:event').unsubscribe(happened));
  return { calls, transactions };
}

async function start() {
  const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
  const { locks } = await startLocks(redis.url, { insideTransaction: 'restart' });
  const { locks: others } = await startLocks(redis.url);
  return { dataSource, locks, others, ...listen() };
}

describe('a lock that is requested inside a transaction', () => {
  it('makes it begin again, which is no failure, and is waited for outside of it', async () => {
    const { dataSource, locks, others, calls, transactions } = await start();
    const busy = await others.acquire(stock.key);
    const sale = dataSource.transaction((manager) =>
      locks.withLock(stock.key, { label: 'sale' }, () => stock.takeOne(manager)),
    );
    setTimeout(() => void busy.release(), 200);
    await sale;
    const ofSale = calls.filter(({ label }) => label === 'sale');
    expect(ofSale.map(({ via, error }) => [via, error])).toEqual([
      [undefined, undefined],
      ['handed-over', undefined],
      ['joined', undefined],
    ]);
    expect(ofSale[1]?.waitedMs).toBeGreaterThan(100);
    expect(transactions).toMatchObject([
      { type: 'transaction', outcome: 'restarted', key: stock.key, label: 'sale' },
    ]);
  });

  it('does not tell a restart that came to nothing, because the lock was not free in time', async () => {
    const { dataSource, locks, others, calls, transactions } = await start();
    await using busy = await others.acquire(stock.key);
    void busy;
    const sale = dataSource.transaction((manager) =>
      locks.withLock(stock.key, { label: 'sale', waitMs: 100 }, () => stock.takeOne(manager)),
    );
    await expect(sale).rejects.toMatchObject({ code: 'LOCK_NOT_ACQUIRED' });
    expect(calls.filter(({ label }) => label === 'sale').map(({ error }) => error)).toMatchObject([
      undefined,
      { code: 'LOCK_NOT_ACQUIRED' },
    ]);
    expect(transactions).toEqual([]);
  });
});

describe('a transaction under a lock that was lost', () => {
  it('is vetoed', async () => {
    const { dataSource, locks, others, transactions } = await start();
    const sale = locks.withLock(stock.key, { label: 'sale' }, () =>
      dataSource.transaction(async (manager) => {
        await stock.takeOne(manager);
        await others.forceRelease(stock.key);
        await new Promise((resolve) => setTimeout(resolve, 200));
      }),
    );
    await expect(sale).rejects.toMatchObject({ code: 'LOCK_LOST' });
    expect(transactions).toMatchObject([
      { type: 'transaction', outcome: 'vetoed', key: stock.key, label: 'sale' },
    ]);
  });
});
