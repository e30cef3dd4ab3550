import type { Pool, PoolConnection } from 'mysql2/promise';
import { lockAwareTransactions, type TransactionGiven } from 'nestjs-locked/transactions';

/** The statements to send before the transaction, and its options. */
export interface MySql2Opening {
  readonly before?: readonly string[];
  readonly given?: TransactionGiven;
}

/** Runs transactions of mysql2 on a pool, as applications write them. */
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
