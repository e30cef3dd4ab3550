import { lockAwareTransactions } from 'nestjs-locked/transactions';
import type { Pool, PoolClient } from 'pg';

export function transactionsOf(pool: Pool) {
  const run = lockAwareTransactions<PoolClient>({ dialect: 'postgres', pool });
  return <R>(
    work: (client: PoolClient) => Promise<R>,
    begin = 'BEGIN', // or 'BEGIN ISOLATION LEVEL REPEATABLE READ'
  ): Promise<R> =>
    run(async (wrap) => {
      const client = await pool.connect();
      let broken = false;
      try {
        await client.query(begin);
        const result = await wrap(client, work);
        await client.query('COMMIT');
        return result;
      } catch (error) {
        await client.query('ROLLBACK').catch(() => (broken = true));
        throw error;
      } finally {
        client.release(broken);
      }
    });
}
