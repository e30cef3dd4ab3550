import { lockAwareTransactions } from 'nestjs-locked/transactions';
import type { Sql, TransactionSql } from 'postgres';

const run = lockAwareTransactions<TransactionSql>({
  dialect: 'postgres',
  query: (tx, sql, params) => tx.unsafe(sql, params as string[]),
  survivesDisconnect: false,
});

export function inTransaction<R>(
  sql: Sql,
  work: (tx: TransactionSql) => Promise<R>,
  options = '', // or 'isolation level repeatable read'
): Promise<R> {
  return run<R>(
    (wrap) => sql.begin(options, (tx) => wrap(tx, work)) as Promise<R>,
  );
}
