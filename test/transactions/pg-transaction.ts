import type { Pool, PoolClient } from 'pg';

/** A transaction as applications write it around a pool; `work` is what comes between its BEGIN and its COMMIT. */
export async function inPgTransaction(
  pool: Pool,
  work: (client: PoolClient) => Promise<void>,
): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query('BEGIN');
    await work(client);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    throw error;
  } finally {
    client.release();
  }
}
