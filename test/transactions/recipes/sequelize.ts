import { lockAwareTransactions } from 'nestjs-locked/transactions';
import type { Sequelize, Transaction, TransactionOptions } from 'sequelize';

export function transactionsOf(sequelize: Sequelize) {
  const run = lockAwareTransactions<Transaction>({
    dialect: 'postgres',
    query: (transaction, sql, bind) =>
      sequelize.query(sql, { transaction, bind }),
    pool: sequelize,
  });
  return <R>(
    work: (transaction: Transaction) => Promise<R>,
    options: TransactionOptions = {},
  ): Promise<R> =>
    run<R>(
      (wrap) =>
        sequelize.transaction(options, (transaction) =>
          wrap(transaction, work),
        ),
      options.isolationLevel === undefined
        ? {}
        : { isolation: options.isolationLevel },
    );
}
