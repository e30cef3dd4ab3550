import { describe, expect, it } from '@jest/globals';
import knexOf, { type Knex } from 'knex';
import { LockInTransactionError } from 'nestjs-locked';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { useRedis } from '../support/shared-redis.js';
import { startLocks } from '../transactions/locks.js';
import { useStock } from '../transactions/stock.js';
import { type Body, clsOrm, POOL_SIZE } from './cls-orm.js';
import { describeLockContract } from './lock-contract.js';
import { describePropagation } from './propagation-suite.js';

// Stands in for the nestjs-cls adapter of Knex, which was not available, and does what its documentation says.
const KNEX = clsOrm('Knex', (url) => {
  const silent = (): void => {};
  const connection = knexOf({
    client: 'pg',
    connection: url,
    pool: { max: POOL_SIZE },
    log: { warn: silent, error: silent, debug: silent, deprecate: silent },
  });
  const opened =
    (options: Knex.TransactionConfig, body: Body, setTx: (tx: Knex) => void) =>
    (knex: Knex): Promise<unknown> =>
      knex.transaction((tx) => {
        setTx(tx);
        return body();
      }, options);
  const optionsFactory = (knex: Knex) => ({
    wrapWithTransaction: (
      options: Knex.TransactionConfig,
      body: Body,
      setTx: (tx?: Knex) => void,
    ) => opened(options, body, setTx)(knex),
    wrapWithNestedTransaction: (
      options: Knex.TransactionConfig,
      body: Body,
      setTx: (tx?: Knex) => void,
      tx: Knex,
    ) => opened(options, body, setTx)(tx),
    getFallbackInstance: () => knex,
  });
  return {
    adapter: lockAwareAdapter({ connection, optionsFactory }),
    isolated: (isolationLevel) => ({ isolationLevel }),
    runs: (tx: Knex) => ({
      query: async (text, params: (string | number)[]) =>
        (await tx.raw<{ rows: unknown[] }>(text.replace(/\$\d/g, '?'), params)).rows,
    }),
    close: () => connection.destroy(),
  };
});

describeLockContract(KNEX, { roundTrips: 0 });
describePropagation(KNEX);

describe('a transaction of Knex whose body commits it', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  it.each<[string, (tx: Knex.Transaction) => Promise<unknown>]>([
    ['a statement', async (tx) => (await tx.raw('COMMIT')) as unknown],
    ['a stream', (tx) => tx.raw('COMMIT').stream().toArray()],
  ])('by %s writes nothing', async (_, end) => {
    const knex = knexOf({ client: 'pg', connection: postgres.url });
    afterTest(() => knex.destroy());
    const run = lockAwareTransactions<Knex.Transaction>({ pool: knex });
    const { locks } = await startLocks(redis.url);
    let refusal: unknown;
    const sale = locks.withLock(stock.key, () =>
      run((wrap) =>
        knex.transaction((own) =>
          wrap(own, async (tx) => {
            await tx('stock').where({ id: stock.product }).decrement('quantity', 1);
            refusal = await end(tx).catch((error: unknown) => error); // swallowed
          }),
        ),
      ),
    );
    await expect(sale).rejects.toThrow(LockInTransactionError);
    expect(refusal).toBeInstanceOf(LockInTransactionError);
    expect(await stock.quantity()).toBe(100);
  });

  it('leaves no connection on which a later transaction commits its work', async () => {
    const knex = knexOf({ client: 'pg', connection: postgres.url, pool: { min: 0, max: 1 } });
    afterTest(() => knex.destroy());
    const run = lockAwareTransactions<Knex.Transaction>({ pool: knex });
    const sell = (end: (tx: Knex.Transaction) => unknown): Promise<unknown> =>
      run((wrap) =>
        knex.transaction((own) =>
          wrap(own, async (tx) => {
            await tx('stock').where({ id: stock.product }).decrement('quantity', 1);
            await end(tx);
          }),
        ),
      );
    const { locks } = await startLocks(redis.url);
    const sale = locks.withLock(stock.key, () => sell((tx) => tx.commit()));
    await expect(sale).rejects.toThrow(/only the code that has opened it may do/);
    await sell(() => {});
    expect(await stock.quantity()).toBe(99);
  });
});

describe('a ROLLBACK that Knex gives up before its driver does', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);
  /** Longer than Knex waits for its ROLLBACK, which is 5 s. */
  const QUERY_TIMEOUT_MS = 6_000;

  it('leaves no connection on which a later transaction commits the failed work', async () => {
    const orm = await KNEX.open(`${postgres.url}?query_timeout=${QUERY_TIMEOUT_MS}`);
    afterTest(() => orm.close());
    const { locks } = await startLocks(redis.url);
    const from = performance.now();
    const sale = locks.withLock(stock.key, () =>
      orm.transaction(async (tx) => {
        await stock.takeOne(tx);
        await tx.query('SELECT pg_sleep(14)', []);
      }),
    );
    await expect(sale).rejects.toThrow(/read timeout/);
    expect(performance.now() - from).toBeGreaterThan(QUERY_TIMEOUT_MS + 4_900);
    await sleep(1_500); // until the driver, too, has given up the ROLLBACK
    await Promise.all(
      Array.from({ length: 10 }, () => orm.transaction((tx) => tx.query('SELECT 1', []))),
    );
    expect(await stock.quantity()).toBe(100);
  });
});
