import type { Pool, PoolClient } from 'pg';

/** Runs a transaction on a pool as applications write it; `work` runs between BEGIN and COMMIT. */
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
