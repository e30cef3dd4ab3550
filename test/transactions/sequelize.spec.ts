import { jest } from '@jest/globals';
import { Sequelize, Transaction } from 'sequelize';
import { describeLockContract } from './lock-contract.js';
import { transactionsOf } from './recipes/sequelize.js';

const { READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE } = Transaction.ISOLATION_LEVELS;
const LEVELS = {
  'read committed': READ_COMMITTED,
  'repeatable read': REPEATABLE_READ,
  serializable: SERIALIZABLE,
};

// It tells the console of every COMMIT that fails.
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
