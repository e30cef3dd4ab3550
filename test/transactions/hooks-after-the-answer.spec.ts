import { describe, expect, it } from '@jest/globals';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { type TestDatabase, useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { byHand, type OpensTransaction, withCallback, type Work } from './opened-transaction.js';
import { useStock } from './stock.js';

const redis = useRedis();

const FORMS: Record<string, OpensTransaction> = {
  'with a callback': withCallback,
  'by hand': byHand(),
};

function describeHooks(type: 'postgres' | 'mysql', database: TestDatabase): void {
  const stock = useStock(database, type);

  const sell = async (open: OpensTransaction, hook: Work) => {
    const dataSource = lockAwareDataSource(await openDataSource(type, database.settings));
    const { locks } = await startLocks(redis.url, { fence: true });
    dataSource.subscribers.push({
      afterQuery: async ({ query, queryRunner }) => {
        if (query === 'COMMIT') await hook(queryRunner);
      },
    });
    return locks.withLock(stock.key, () => open(dataSource, (runner) => stock.takeOne(runner)));
  };
  const expectSold = async (): Promise<void> =>
    expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([99, false]);

  it.each(Object.entries(FORMS))(
    'that fails leaves no doubt: a transaction %s',
    async (_, open) => {
      const sale = sell(open, () => Promise.reject(new Error('no metrics')));
      await expect(sale).rejects.toThrow(/^no metrics/);
      await expectSold();
    },
  );

  it.each(Object.entries(FORMS))(
    'that fails as if it had been refused changes nothing of what is committed: a transaction %s',
    async (_, open) => {
      const dataSource = lockAwareDataSource(await openDataSource(type, database.settings));
      // As of typeorm-transactional: what is begun in the body is then refused for a while after a rollback.
      Object.assign(dataSource, { '@transactional/data-source': 'default' });
      const { locks } = await startLocks(redis.url, { fence: true });
      dataSource.subscribers.push({
        afterQuery: ({ query }) =>
          query === 'COMMIT'
            ? Promise.reject(Object.assign(new Error('known already'), { code: '23505' }))
            : undefined,
      });
      const ended = makeGate();
      let later: Promise<unknown> | undefined;
      const sale = locks.withLock(stock.key, () =>
        open(dataSource, (runner) => {
          later = ended.opened.then(() => dataSource.createQueryRunner().release());
          return stock.takeOne(runner);
        }),
      );
      await expect(sale).rejects.toThrow(/^known already/);
      ended.open();
      await expect(later).resolves.toBeUndefined();
      await expectSold();
    },
  );

  it('that gives the connection back by hand leaves no doubt', async () => {
    await sell(FORMS['by hand'] as OpensTransaction, (runner) => runner.release());
    await expectSold();
  });
}

describe('on PostgreSQL, a hook behind the answer to the COMMIT', () =>
  describeHooks('postgres', usePostgres()));

describeWithMariaDb('on MariaDB, a hook behind the answer to the COMMIT', () =>
  describeHooks('mysql', useMariaDb()),
);
