import { lockAwareTransactions } from 'nestjs-locked/transactions';
import type { Pool, PoolClient } from 'pg';

const run = lockAwareTransactions<PoolClient>({ dialect: 'postgres' });

export function inTransaction<R>(
  pool: Pool,
  work: (client: PoolClient) => Promise<R>,
  begin = 'BEGIN', // or 'BEGIN ISOLATION LEVEL REPEATABLE READ'
): Promise<R> {
  return run(async (wrap) => {
    const client = await pool.connect();
    let broken = false;
    const onError = (): void => void (broken = true); // without a listener the process ends
    client.on('error', onError);
    try {
      await client.query(begin);
      const result = await wrap(client, work);
      await client.query('COMMIT');
      return result;
    } catch (error) {
      await client.query('ROLLBACK').catch(onError);
      throw error;
    } finally {
      client.off('error', onError);
      client.release(broken);
    }
  });
}
