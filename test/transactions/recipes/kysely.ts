import type { IsolationLevel, Kysely, Transaction } from 'kysely';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import type { Pool } from 'pg';

export function transactionsOf<Database>(database: Kysely<Database>, pool: Pool) {
  pool.on('connect', (client) => client.on('error', () => {})); // else a time-out ends the process
  const run = lockAwareTransactions<Transaction<Database>>();
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
