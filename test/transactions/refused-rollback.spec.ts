import { describe, expect, it } from '@jest/globals';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import pg from 'pg';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { startLocks } from './locks.js';

const redis = useRedis();
const postgres = usePostgres();

const codeOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => undefined,
    ({ code }: { code?: unknown }) => code,
  );

/** Sends the statement in the place of the ROLLBACK, and then a right one. @returns their answers */
async function rollBackTwice(refused: string, from: 'the body' | 'its opener') {
  const pool = new pg.Pool({ connectionString: postgres.url, max: 1 });
  pool.on('error', () => {});
  afterTest(() => pool.end());
  const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
  const told: unknown[] = [];
  const work = run(async (wrap) => {
    const client = await pool.connect();
    const send = async (): Promise<void> => void told.push(await codeOf(client.query(refused)));
    try {
      await client.query('BEGIN');
      await wrap(client, async () => (from === 'the body' ? send() : undefined));
      throw new Error('rolled back');
    } finally {
      if (from !== 'the body') await send();
      const answer = await client.query('ROLLBACK').catch((error: unknown) => error);
      told.push((answer as { command?: string }).command);
      client.release();
    }
  });
  await work.catch(() => {});
  return told;
}

describe('a ROLLBACK that the database refuses', () => {
  it.each([
    ['ROLLBACK nothing', 'the body'],
    ['ABORT nothing', 'the body'],
    ['ROLLBACK nothing', 'its opener'],
  ] as const)('leaves the connection alone without a lock: %s, from %s', async (refused, from) => {
    expect(await rollBackTwice(refused, from)).toEqual(['42601', 'ROLLBACK']);
  });

  it.each(['the body', 'its opener'] as const)(
    'closes it under a lock, so that no pool hands out the transaction: from %s',
    async (from) => {
      const { locks } = await startLocks(redis.url);
      const told = locks.withLock('refused', () => rollBackTwice('ROLLBACK nothing', from));
      expect(await told).toEqual(['42601', undefined]);
    },
  );
});
