import type { IsolationLevel, Kysely, Transaction } from 'kysely';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import type { Pool } from 'pg';

export function transactionsOf<Database>(
  database: Kysely<Database>,
  pool: Pool,
) {
  const run = lockAwareTransactions<Transaction<Database>>({ pool });
  return <R>(
    work: (tx: Transaction<Database>) => Promise<R>,
    isolation: IsolationLevel = 'read committed',
  ): Promise<R> =>
    run<R>((wrap) =>
      database
        .transaction()
        .setIsolationLevel(isolation)
        .execute((tx) => wrap(tx, work)),
    );
}
