import { describe, expect, it } from '@jest/globals';
import { LockInTransactionError } from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { DataSource } from 'typeorm';
import { type TestDatabase, useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { byHand, type OpensTransaction, withCallback } from './opened-transaction.js';
import { type Stock, useStock } from './stock.js';

const redis = useRedis();

const FORMS: [string, OpensTransaction][] = [
  ['with a callback', withCallback],
  ['by hand', byHand()],
];

type Type = 'postgres' | 'mysql';
type How = 'with TypeORM alone' | 'without a lock' | 'under a lock' | 'under a fenced lock';

function describeHooks(type: Type, database: TestDatabase, stock: Stock): void {
  /** @returns what the sale is told */
  async function sell(how: How, open: OpensTransaction): Promise<[unknown, DataSource]> {
    const plain = await openDataSource(type, database.settings, 1);
    const dataSource = how === 'with TypeORM alone' ? plain : lockAwareDataSource(plain);
    const { locks } = await startLocks(
      redis.url,
      how === 'under a fenced lock' ? { fence: {} } : {},
    );
    let calls = 0;
    dataSource.subscribers.push({
      beforeQuery: async ({ query, queryRunner }) => {
        if (query === 'START TRANSACTION' && calls++ === 0) await queryRunner.release();
      },
    });
    const sale = (): Promise<unknown> => open(dataSource, (runner) => stock.takeOne(runner));
    const told = await (how.startsWith('under') ? locks.withLock(stock.key, sale) : sale()).catch(
      (error: unknown) => (error as Error).constructor.name,
    );
    expect(await isHeld(redis.url, stock.key)).toBe(false);
    return [told, dataSource];
  }

  describe.each(FORMS)('of a transaction %s', (_, open) => {
    it.each<How>(['under a lock', 'under a fenced lock'])(
      'leaves nothing open on its connection, and the start fails: %s',
      async (how) => {
        const [told, dataSource] = await sell(how, open);
        expect(told).toBe(LockInTransactionError.name);
        await dataSource.query(`UPDATE stock SET quantity = 50 WHERE id = '${stock.product}'`);
        expect(await stock.quantity()).toBe(50); // as others see it
      },
    );

    it('is told of as with TypeORM alone without a lock', async () => {
      const [alone] = await sell('with TypeORM alone', open);
      const [told] = await sell('without a lock', open);
      expect(told).toBe(alone);
    });
  });
}

describe('a hook that releases the query runner before its BEGIN is sent', () => {
  const postgres = usePostgres();
  describeHooks('postgres', postgres, useStock(postgres));
});

describeWithMariaDb(
  'a hook that releases the query runner before its BEGIN is sent, on MariaDB',
  () => {
    const mariaDb = useMariaDb();
    describeHooks('mysql', mariaDb, useStock(mariaDb, 'mysql'));
  },
);
