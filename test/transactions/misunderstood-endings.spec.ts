import { describe, expect, it } from '@jest/globals';
import { LockCommitUnknownError } from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { EntityManager, EntitySubscriberInterface, QueryRunner } from 'typeorm';
import { useMariaDb } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { byHand, withCallback } from './opened-transaction.js';
import { useStock } from './stock.js';

const redis = useRedis();

const FORMS = [
  ['with a callback', withCallback],
  ['by hand', byHand()],
] as const;

const ENDINGS = ['COMMIT nothing', 'START TRANSACTION nothing', 'SET autocommit = 1 nothing'];

const swallowed = (acting: Promise<unknown>): Promise<void> =>
  acting.then(
    () => {},
    () => {},
  );

interface Connection {
  query: (...args: unknown[]) => unknown;
}
type Answered = (error: unknown) => void;

/** The next statement on the connection is done, but its answer does not arrive. */
async function loseAnswer(runner: QueryRunner): Promise<void> {
  const connection = (await runner.connect()) as Connection;
  const { query } = connection;
  connection.query = (...args) => {
    connection.query = query;
    const answered = args.pop() as Answered;
    const lost = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET', errno: -104 });
    return query.call(connection, ...args, () => answered(lost));
  };
}

describeWithMariaDb('a statement before the COMMIT that the database does not understand', () => {
  const mariaDb = useMariaDb();
  const stock = useStock(mariaDb, 'mysql');

  const start = async (hook: (runner: QueryRunner) => Promise<unknown>, multiple = false) => {
    const extra = multiple ? { multipleStatements: true } : {};
    const opened = await openDataSource('mysql', mariaDb.settings, 1, { extra });
    const dataSource = lockAwareDataSource(opened);
    const { locks } = await startLocks(redis.url, { fence: true });
    let calls = 0;
    const subscriber: EntitySubscriberInterface = {
      beforeTransactionCommit: async ({ queryRunner }) => {
        if (calls++ === 0) await hook(queryRunner);
      },
    };
    dataSource.subscribers.push(subscriber);
    return { dataSource, locks };
  };

  describe.each(FORMS)('of a transaction %s', (_, open) => {
    it.each(ENDINGS)('is told as what it is, and nothing is in doubt: %s', async (sql) => {
      const { dataSource, locks } = await start((runner) => runner.query(sql));
      const sale = locks.withLock(stock.key, () =>
        open(dataSource, (runner) => stock.takeOne(runner)),
      );
      await expect(sale).rejects.toHaveProperty('driverError.errno', 1064);
      expect(await isHeld(redis.url, stock.key)).toBe(false);
      await dataSource.transaction((manager) => manager.query('SELECT 1')); // commits what was left open
      expect(await stock.quantity()).toBe(100);
    });

    it.each(ENDINGS)('changes nothing if its error is swallowed: %s', async (sql) => {
      const { dataSource, locks } = await start((runner) => swallowed(runner.query(sql)));
      await locks.withLock(stock.key, () => open(dataSource, (runner) => stock.takeOne(runner)));
      expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([99, false]);
    });

    it('says nothing about a COMMIT after it that is not answered', async () => {
      const { dataSource, locks } = await start(async (runner) => {
        await swallowed(runner.query('COMMIT nothing'));
        await loseAnswer(runner);
      });
      const sale = locks.withLock(stock.key, () =>
        open(dataSource, (runner) => stock.takeOne(runner)),
      );
      await expect(sale).rejects.toBeInstanceOf(LockCommitUnknownError);
      expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([99, true]);
    });

    it.each(['START TRANSACTION; nothing', 'COMMIT; nothing'])(
      'leaves a doubt if others in its text come before it: %s',
      async (sql) => {
        const { dataSource, locks } = await start((runner) => runner.query(sql), true);
        const sale = locks.withLock(stock.key, () =>
          open(dataSource, (runner) => stock.takeOne(runner)),
        );
        await expect(sale).rejects.toBeInstanceOf(LockCommitUnknownError);
        expect(await stock.quantity()).toBe(99);
      },
    );
  });

  it('is told to the call if it was to be the COMMIT, and its error is swallowed', async () => {
    const dataSource = await openDataSource('mysql', mariaDb.settings, 1);
    const run = lockAwareTransactions<EntityManager>();
    const { locks } = await startLocks(redis.url, { fence: true });
    const runner = dataSource.createQueryRunner();
    const sale = locks.withLock(stock.key, () =>
      run(async (wrap) => {
        await runner.startTransaction();
        await wrap(runner.manager, (manager) => stock.takeOne(manager));
        await swallowed(runner.query('COMMIT nothing'));
      }),
    );
    await expect(sale).rejects.toHaveProperty('driverError.errno', 1064);
    await runner.release();
    expect(await isHeld(redis.url, stock.key)).toBe(false);
  });
});
