import { describe, expect, it } from '@jest/globals';
import { LockInTransactionError, type LockService } from 'nestjs-locked';
import { unfenced } from 'nestjs-locked/transactions';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import type { TestDatabase } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { startLocks } from './locks.js';
import { type Runs, useStock } from './stock.js';

/** A transaction that was opened in the way under test. */
export interface OpenedTransaction extends Runs {
  /** Ways to continue in this transaction, joined or in a savepoint. They need no other connection. */
  readonly again?: Readonly<Record<string, (body: () => Promise<void>) => Promise<void>>>;
}

/** A way to open transactions. Inside a transaction, it opens a second one on another connection. */
export interface OpensSecond {
  transaction(body: (tx: OpenedTransaction) => Promise<void>): Promise<void>;
  close(): unknown;
}

export interface SecondTransactions {
  readonly name: string;
  readonly dialect?: 'postgres' | 'mysql';
  /** @param poolSize the maximum number of connections in its pool */
  readonly open: (database: TestDatabase, poolSize: number) => Promise<OpensSecond>;
}

/** Ends a test in which nothing is refused. */
const LIMIT_MS = 10_000;

async function failureOf(second: Promise<void>): Promise<unknown> {
  const failure = second.then(
    () => undefined,
    (error: unknown) => error,
  );
  const limit = new AbortController();
  const waits = sleep(LIMIT_MS, 'it waits for a connection', { signal: limit.signal });
  waits.catch(() => {});
  return Promise.race([failure, waits]).finally(() => limit.abort());
}

/** Tests a second transaction inside the first, under one lock with the fence. */
export function describeSecondTransactions(
  useDatabase: () => TestDatabase,
  { name, dialect = 'postgres', open }: SecondTransactions,
): void {
  describe(`a second transaction inside the first: ${name}`, () => {
    const redis = useRedis();
    const database = useDatabase();
    const stock = useStock(database, dialect);

    const start = async (
      poolSize: number,
      options: Parameters<typeof startLocks>[1] = {},
    ): Promise<{ locks: LockService; transaction: OpensSecond['transaction'] }> => {
      const opened = await open(database, poolSize);
      afterTest(() => opened.close());
      const { locks } = await startLocks(redis.url, { fence: true, ...options });
      return { locks, transaction: (body) => opened.transaction(body) };
    };

    it('is refused before it asks for a connection, and the first one continues [R56]', async () => {
      const { locks, transaction } = await start(1);
      let ran = false;
      let refused: unknown;
      await locks.withLock(stock.key, () =>
        transaction(async (tx) => {
          await stock.takeOne(tx);
          refused = await failureOf(transaction(async () => void (ran = true)));
        }),
      );
      expect(refused).toBeInstanceOf(LockInTransactionError);
      expect(refused).toMatchObject({ key: stock.key, code: 'LOCK_IN_TRANSACTION' });
      expect((refused as Error).message).toMatch(
        new RegExp(
          `^A second transaction under lock '${stock.key}' was refused inside an open database transaction \\(started \\d+ ms ago\\)\\. The transaction around it has claimed the same key`,
        ),
      );
      expect([ran, await stock.quantity()]).toEqual([false, 99]);
    });

    it('is refused in the same way for a key that was taken inside', async () => {
      const { locks, transaction } = await start(1, { insideTransaction: 'restart' });
      let refused: unknown;
      await transaction((tx) =>
        locks.withLock(stock.key, async () => {
          await stock.takeOne(tx);
          refused = await failureOf(transaction(async () => {}));
        }),
      );
      expect(refused).toBeInstanceOf(LockInTransactionError);
      expect(String(refused)).toMatch(/each would wait for the other/);
      expect(await stock.quantity()).toBe(99);
    });

    it('is allowed without the fence', async () => {
      const { locks, transaction } = await start(2);
      await locks.withLock(stock.key, () =>
        transaction(async (tx) => {
          await stock.takeOne(tx);
          await unfenced(() => transaction((beside) => read(beside)));
        }),
      );
      expect(await stock.quantity()).toBe(99);
    });

    // On MySQL and MariaDB, the isolation level that this requires is not known.
    if (dialect === 'postgres') {
      it('is allowed if its own code does not hold the key that the first one keeps', async () => {
        const { locks, transaction } = await start(2, { insideTransaction: 'join' });
        await transaction(async (tx) => {
          await locks.withLock(stock.key, () => stock.takeOne(tx));
          await transaction((beside) => read(beside));
        });
        expect(await stock.quantity()).toBe(99);
        expect(await stock.fence()).toBeGreaterThan(0);
      });
    }

    it('is not a second one if it is the same transaction again', async () => {
      const { locks, transaction } = await start(1);
      let again = 0;
      let ways: readonly string[] = [];
      await locks.withLock(stock.key, () =>
        transaction(async (tx) => {
          ways = Object.keys(tx.again ?? {});
          for (const way of Object.values(tx.again ?? {})) {
            await way(async () => {
              again++;
              await stock.takeOne(tx);
            });
          }
        }),
      );
      expect([again, await stock.quantity()]).toEqual([ways.length, 100 - ways.length]);
    });

    const read = async (tx: Runs): Promise<void> => {
      await tx.query('SELECT count(*) FROM stock', []);
    };
  });
}
