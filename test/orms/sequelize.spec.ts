import { describe, expect, it, jest } from '@jest/globals';
import { Sequelize, Transaction } from 'sequelize';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { startLocks } from '../transactions/locks.js';
import { transactionsOf } from '../transactions/recipes/sequelize.js';
import { useStock } from '../transactions/stock.js';
import { describeLockContract } from './lock-contract.js';

describe('transactions', () => {
  const { READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE } = Transaction.ISOLATION_LEVELS;
  const LEVELS = {
    'read committed': READ_COMMITTED,
    'repeatable read': REPEATABLE_READ,
    serializable: SERIALIZABLE,
  };

  // Sequelize prints a warning for every COMMIT that fails.
  jest.spyOn(console, 'warn').mockImplementation(() => {});

  describeLockContract(
    {
      name: 'Sequelize',
      open: async (url) => {
        const sequelize = new Sequelize(url, { logging: false, pool: { max: 10 } });
        const transaction = transactionsOf(sequelize);
        return {
          transaction: (body, isolation) =>
            transaction(
              (tx) =>
                body({
                  query: async (sql, bind: unknown[]) =>
                    (await sequelize.query(sql, { transaction: tx, bind }))[0],
                }),
              isolation === undefined ? {} : { isolationLevel: LEVELS[isolation] },
            ),
          close: () => sequelize.close(),
        };
      },
    },
    { roundTrips: 0 },
  );
});

describe('savepoints', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  /** The work of a branch that the body does not await. It lasts until another transaction has the connection. */
  type Branch = (
    nested: (body: (inner: Transaction) => Promise<void>) => Promise<void>,
    sell: (transaction: Transaction) => Promise<void>,
    hasBegun: () => void,
    isNext: Promise<void>,
  ) => Promise<void>;

  const BRANCHES: Record<string, Branch> = {
    'that is open': (nested, sell, hasBegun, isNext) =>
      nested(async (inner) => {
        hasBegun();
        await isNext;
        await sell(inner);
      }),
    'that fails without a statement': (nested, _sell, hasBegun, isNext) =>
      nested(async () => {
        hasBegun();
        await isNext;
        throw new Error('no mail server');
      }),
    'that is opened late': async (nested, sell, hasBegun, isNext) => {
      hasBegun();
      await isNext;
      await nested(sell);
    },
  };

  describe.each(Object.entries(BRANCHES))(
    'a nested transaction of Sequelize %s, when the one around it ends',
    (_, branch) => {
      it.each([
        ['is committed', false, 97],
        ['fails', true, 98],
      ])('sends nothing into the next one if it %s', async (_how, fails, quantity) => {
        // One connection, so that the next transaction gets the same.
        const sequelize = new Sequelize(postgres.url, { logging: false, pool: { max: 1 } });
        afterTest(() => sequelize.close());
        const transaction = transactionsOf(sequelize);
        const { locks } = await startLocks(redis.url, { fence: true });
        const sell = (tx: Transaction): Promise<void> =>
          stock.takeOne({
            query: async (sql, bind: unknown[]) =>
              (await sequelize.query(sql, { transaction: tx, bind }))[0],
          });
        const begun = makeGate();
        const next = makeGate();
        let late: Promise<unknown> = Promise.resolve();

        const sale = locks.withLock(stock.key, () =>
          transaction(async (tx) => {
            await sell(tx);
            const nested = branch(
              (body) => sequelize.transaction({ transaction: tx }, body),
              sell,
              begun.open,
              next.opened,
            );
            late = expect(nested).rejects.toThrow(/has been called on this|no mail server/);
            await begun.opened;
            if (fails) throw new Error('no money');
          }),
        );
        await (fails ? expect(sale).rejects.toThrow('no money') : sale);

        await sequelize.transaction(async (tx) => {
          await sell(tx);
          next.open();
          await late;
          await sell(tx);
        });
        expect(await stock.quantity()).toBe(quantity);
      });
    },
  );
});
