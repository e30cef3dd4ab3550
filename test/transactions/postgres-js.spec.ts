import { describe, expect, it } from '@jest/globals';
import { LockInTransactionError } from 'nestjs-locked';
import postgres from 'postgres';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { describeLockContract } from './lock-contract.js';
import { startLocks } from './locks.js';
import { inTransaction } from './recipes/postgres-js.js';
import { useStock } from './stock.js';

describeLockContract(
  {
    name: 'postgres.js',
    survivesDisconnect: false,
    timesOut: false,
    open: async (url) => {
      const sql = postgres(url, { onnotice: () => {} });
      return {
        transaction: (body, isolation) =>
          inTransaction(
            sql,
            (tx) => body({ query: (text, params: string[]) => tx.unsafe(text, params) }),
            isolation === undefined ? '' : `isolation level ${isolation}`,
          ),
        close: () => sql.end({ timeout: 0 }),
      };
    },
  },
  { roundTrips: 2 },
);

describe('a file whose statements end the transaction of postgres.js', () => {
  const redis = useRedis();
  const database = usePostgres();
  const stock = useStock(database);

  it.each(['COMMIT', 'ROLLBACK'])('is no success: %s', async (ending) => {
    const folder = mkdtempSync(join(tmpdir(), 'statements-'));
    afterTest(() => rmSync(folder, { recursive: true }));
    const file = join(folder, 'ending.sql');
    writeFileSync(file, `${ending};`);
    const sql = postgres(database.url, { onnotice: () => {} });
    afterTest(() => sql.end({ timeout: 0 }));
    const { locks } = await startLocks(redis.url);
    // Nobody sees the text before it is sent, and postgres.js does not tell in which state its connection is.
    const sale = locks.withLock(stock.key, () =>
      inTransaction(sql, async (tx) => {
        await stock.takeOne({ query: (text, params: string[]) => tx.unsafe(text, params) });
        await tx.file(file);
      }),
    );
    await expect(sale).rejects.toThrow(/has ended the transaction before its COMMIT/);
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
  });
});
