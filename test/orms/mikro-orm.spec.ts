import { describe, expect, it } from '@jest/globals';
import {
  type EntityManager,
  EntitySchema,
  type EventSubscriber,
  IsolationLevel,
  MikroORM,
} from '@mikro-orm/postgresql';
import { LockInTransactionError, LockLostError } from 'nestjs-locked';
import type pg from 'pg';
import { createRequire } from 'node:module';
import { afterTest } from '../support/after-test.js';
import { usePostgres } from '../support/databases.js';
import { eventually } from '../support/eventually.js';
import { useRedis } from '../support/shared-redis.js';
import { startLocks } from '../transactions/locks.js';
import { transactionsOf } from '../transactions/recipes/mikro-orm.js';
import { useStock } from '../transactions/stock.js';
import { describeLockContract } from './lock-contract.js';

const LEVELS = {
  'read committed': IsolationLevel.READ_COMMITTED,
  'repeatable read': IsolationLevel.REPEATABLE_READ,
  serializable: IsolationLevel.SERIALIZABLE,
};

class Stock {
  id!: string;
  quantity!: number;
}

const entity = new EntitySchema({
  class: Stock,
  tableName: 'stock',
  properties: { id: { type: 'string', primary: true }, quantity: { type: 'number' } },
});

/** MikroORM ignores the driver's time-out in the URL. */
const open = (url: string): Promise<MikroORM> => {
  const timeout = new URL(url).searchParams.get('query_timeout');
  const driverOptions = timeout === null ? {} : { query_timeout: Number(timeout) };
  return MikroORM.init({ entities: [entity], clientUrl: url, driverOptions });
};

const { resolve } = createRequire(import.meta.url);
const { Client } = createRequire(resolve('@mikro-orm/postgresql'))('pg') as typeof pg;

describeLockContract(
  {
    name: 'MikroORM',
    Client,
    survivesDisconnect: false,
    open: async (url) => {
      const orm = await open(url);
      const inTransaction = await transactionsOf(orm);
      return {
        transaction: (body, isolation) =>
          inTransaction(
            (em) =>
              body({
                query: (sql, params: unknown[]) => em.execute(sql.replace(/\$\d/g, '?'), params),
              }),
            isolation === undefined ? {} : { isolationLevel: LEVELS[isolation] },
          ),
        // Not awaited, because `close` never ends if the connection of a client has died
        // (https://github.com/kysely-org/kysely/issues/1990).
        close: async () => void orm.close(true),
      };
    },
  },
  { roundTrips: 0 },
);

describe('the unit of work of MikroORM', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  it('is flushed before the gate: a lock that is lost during the flush forbids the commit', async () => {
    const orm = await open(postgres.url);
    afterTest(() => orm.close(true));
    const inTransaction = await transactionsOf(orm);
    const { locks } = await startLocks(redis.url, { fence: {} });
    let isWritten = false;
    const sale = locks.withLock(stock.key, (lock) => {
      orm.em.getEventManager().registerSubscriber({
        afterFlush: async () => {
          isWritten = true;
          await locks.forceRelease(stock.key);
          await eventually(() => expect(lock.isHeld).toBe(false));
        },
      });
      return inTransaction(async (em) => {
        (await em.findOneOrFail(Stock, stock.product)).quantity--;
      });
    });
    await expect(sale).rejects.toBeInstanceOf(LockLostError);
    expect(isWritten).toBe(true);
    expect(await stock.quantity()).toBe(100);
  });

  it('is not flushed if the lock was lost', async () => {
    const orm = await open(postgres.url);
    afterTest(() => orm.close(true));
    const inTransaction = await transactionsOf(orm);
    const { locks } = await startLocks(redis.url, { fence: {} });
    const sale = locks.withLock(stock.key, (lock) =>
      inTransaction(async (em) => {
        (await em.findOneOrFail(Stock, stock.product)).quantity--;
        await locks.forceRelease(stock.key);
        await eventually(() => expect(lock.isHeld).toBe(false));
      }),
    );
    await expect(sale).rejects.toBeInstanceOf(LockLostError);
    expect(await stock.quantity()).toBe(100);
  });

  it('begins empty in every run, so that no sale is based on reads of an earlier run', async () => {
    const orm = await open(postgres.url);
    afterTest(() => orm.close(true));
    const inTransaction = await transactionsOf(orm);
    const { locks } = await startLocks(redis.url, { fence: {}, insideTransaction: 'restart' });
    await Promise.all(
      Array.from({ length: 6 }, () =>
        inTransaction(
          async (em) => {
            const found = await em.findOneOrFail(Stock, stock.product);
            await locks.withLock(stock.key, async () => void found.quantity--);
          },
          { isolationLevel: IsolationLevel.REPEATABLE_READ },
        ),
      ),
    );
    expect(await stock.quantity()).toBe(94);
  });
});

describe('em.commit() of MikroORM in the body under a lock', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  const takeOne = (em: EntityManager): Promise<unknown> =>
    em.execute('UPDATE stock SET quantity = quantity - 1 WHERE id = ?', [stock.product]);

  /** Resolves with the error of a rejected promise. */
  const tried = (done: Promise<unknown>): Promise<unknown> => done.catch((error: unknown) => error);

  it.each<[string, (em: EntityManager) => Promise<unknown>]>([
    ['fails', (em) => em.commit()],
    ['continues', (em) => tried(em.commit()).then(() => takeOne(em))],
    ['swallows all errors', (em) => tried(em.commit()).then(() => tried(takeOne(em)))],
    ['rolls back', (em) => tried(em.commit()).then(() => em.rollback())],
    ['commits again', (em) => tried(em.commit()).then(() => tried(em.commit()))],
  ])('writes nothing and returns the connection to the pool if the body %s', async (_, end) => {
    const orm = await MikroORM.init({
      entities: [entity],
      clientUrl: postgres.url,
      pool: { min: 0, max: 1 },
    });
    afterTest(() => orm.close(true));
    const inTransaction = await transactionsOf(orm);
    const { locks } = await startLocks(redis.url, { fence: {} });
    const sale = locks.withLock(stock.key, () =>
      inTransaction(async (em) => {
        await takeOne(em);
        await end(em);
      }),
    );
    await expect(sale).rejects.toMatchObject({ code: 'LOCK_IN_TRANSACTION' });
    expect(await stock.quantity()).toBe(100);
    await inTransaction(takeOne); // would otherwise wait forever for a connection
    expect(await stock.quantity()).toBe(99);
  });
});

describe('a hook of MikroORM', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  /** Sells one piece under the lock. @param hooks the subscriber to the events of its transaction */
  const sell = async (hooks: (orm: MikroORM) => EventSubscriber) => {
    const orm = await open(postgres.url);
    afterTest(() => void orm.close(true));
    const inTransaction = await transactionsOf(orm);
    const { locks } = await startLocks(redis.url, { fence: true });
    orm.em.getEventManager().registerSubscriber(hooks(orm));
    return locks.withLock(stock.key, () =>
      inTransaction((em) =>
        stock.takeOne({
          query: (sql, params: unknown[]) => em.execute(sql.replace(/\$\d/g, '?'), params),
        }),
      ),
    );
  };

  it('that rolls back before the COMMIT: the call fails', async () => {
    const sale = sell(() => ({
      beforeTransactionCommit: async ({ em, transaction }) =>
        void (await em.getDriver().getConnection().execute('ROLLBACK', [], 'run', transaction)),
    }));
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    expect(await stock.quantity()).toBe(100);
  });

  it('after the rollback commits the next transaction of the connection', async () => {
    let calls = 0;
    const sale = sell((orm) => ({
      beforeTransactionCommit: () =>
        calls++ === 0 ? Promise.reject(new Error('no money')) : Promise.resolve(),
      afterTransactionRollback: () =>
        orm.em.fork().transactional(async (em) => {
          await em.execute('UPDATE stock SET quantity = 110 WHERE id = ?', [stock.product]);
        }),
    }));
    await expect(sale).rejects.toThrow('no money');
    expect(await stock.quantity()).toBe(110);
  });
});
