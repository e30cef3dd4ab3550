import type { Pool, PoolConnection } from 'mysql2/promise';
import { lockAwareTransactions, type TransactionGiven } from 'nestjs-locked/transactions';

/** What is said to the connection first, and how the transaction is opened. */
export interface MySql2Opening {
  readonly before?: readonly string[];
  readonly given?: TransactionGiven;
}

/** Transactions of mysql2 as applications write them around a pool. */
export function mysql2Transactions(pool: Pool) {
  const run = lockAwareTransactions<PoolConnection>({ dialect: 'mysql' });
  return <R>(
    work: (client: PoolConnection) => Promise<R>,
    { before = [], given = {} }: MySql2Opening = {},
  ): Promise<R> =>
    run(async (wrap) => {
      const client = await pool.getConnection();
      try {
        for (const sql of before) await client.query(sql);
        await client.beginTransaction();
        const result = await wrap(client, work);
        await client.commit();
        return result;
      } catch (error) {
        await client.rollback();
        throw error;
      } finally {
        client.release();
      }
    }, given);
}
