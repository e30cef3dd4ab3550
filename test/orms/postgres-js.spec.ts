import { describe, expect, it } from '@jest/globals';
import { LockInTransactionError } from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import postgres, { type Sql, type TransactionSql } from 'postgres';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { startLocks } from '../transactions/locks.js';
import { inTransaction } from '../transactions/recipes/postgres-js.js';
import { useStock } from '../transactions/stock.js';
import { describeLockContract } from './lock-contract.js';

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

describe('a body of postgres.js that ends its transaction', () => {
  const redis = useRedis();
  const database = usePostgres();
  const stock = useStock(database);

  const takeOne = (tx: Sql | TransactionSql): Promise<void> =>
    stock.takeOne({ query: (text, params: string[]) => tx.unsafe(text, params) });

  const openSql = (): Sql => {
    const sql = postgres(database.url, { max: 1, onnotice: () => {} });
    afterTest(() => sql.end({ timeout: 0 }));
    return sql;
  };

  const fileOf = (text: string): string => {
    const folder = mkdtempSync(join(tmpdir(), 'statements-'));
    afterTest(() => rmSync(folder, { recursive: true }));
    const file = join(folder, 'statements.sql');
    writeFileSync(file, text);
    return file;
  };

  it.each([
    ['a file: COMMIT', (tx: TransactionSql) => tx.file(fileOf('COMMIT;'))],
    ['a file: COMMIT; BEGIN', (tx: TransactionSql) => tx.file(fileOf('COMMIT; BEGIN'))],
    [
      'a file in a savepoint',
      (tx: TransactionSql) => tx.savepoint((part) => part.file(fileOf('COMMIT; BEGIN'))),
    ],
    ['prepare()', (tx: TransactionSql) => tx.prepare('mine')],
  ])('writes nothing: %s', async (_, end) => {
    const { locks } = await startLocks(redis.url);
    const refused: unknown[] = [];
    const sale = locks.withLock(stock.key, () =>
      inTransaction(openSql(), async (tx) => {
        await takeOne(tx);
        await (async () => end(tx))().catch((error: unknown) => refused.push(error)); // swallowed
        await takeOne(tx);
      }),
    );
    await expect(sale).rejects.toThrow(/It would end the transaction/);
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    expect(refused).toEqual([expect.any(LockInTransactionError)]);
    expect(await stock.quantity()).toBe(100);
  });

  it('writes nothing if it requests a lock after prepare()', async () => {
    const { locks } = await startLocks(redis.url, { insideTransaction: 'join' });
    const sale = inTransaction(openSql(), async (tx) => {
      await takeOne(tx);
      await tx.prepare('mine');
      await locks.withLock(stock.key, () => takeOne(tx));
    });
    await expect(sale).rejects.toThrow(/It would end the transaction/);
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    expect(await stock.quantity()).toBe(100);
  });

  it('may run a file that ends nothing, with parameters', async () => {
    const { locks } = await startLocks(redis.url);
    const rows = await locks.withLock(stock.key, () =>
      inTransaction(openSql(), async (tx) => {
        await takeOne(tx);
        const file = fileOf('SELECT quantity FROM stock WHERE id = $1');
        return [...(await tx.file(file, [stock.product]))];
      }),
    );
    expect(rows).toEqual([{ quantity: 99 }]);
    const missing = inTransaction(openSql(), async (tx) => tx.file('/is/not/there.sql'));
    await expect(missing).rejects.toMatchObject({ code: 'ENOENT' });
  });

  it.each(['COMMIT', 'ROLLBACK'])('is not an unnoticed success: %s', async (ending) => {
    const run = lockAwareTransactions<TransactionSql>({
      dialect: 'postgres',
      query: (tx, text, params) => tx.unsafe(text, params as string[]),
      survivesDisconnect: false,
    });
    const { locks } = await startLocks(redis.url);
    const sql = openSql();
    // The library does not see statements on `unguarded`, and postgres.js does not expose the state of its connection.
    const sale = locks.withLock(stock.key, () =>
      run(async (wrap) => {
        await sql.begin('', (unguarded) =>
          wrap(unguarded, async (tx) => {
            await takeOne(tx);
            await unguarded.unsafe(ending);
          }),
        );
      }),
    );
    await expect(sale).rejects.toThrow(/has ended the transaction before its COMMIT/);
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
  });
});
