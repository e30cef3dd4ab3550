import { describe, expect, it } from '@jest/globals';
import { LockInTransactionError } from 'nestjs-locked';
import { lockAwareTransactions } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import pg from 'pg';
import type { DataSource, EntityManager, EntitySubscriberInterface, QueryRunner } from 'typeorm';
import { afterTest } from '../support/after-test.js';
import { type TestDatabase, useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from './data-source.js';
import { isHeld, startLocks } from './locks.js';
import { byHand, type OpensTransaction, type Work } from './opened-transaction.js';
import { type Runs, useStock } from './stock.js';

describe('the start of a nested transaction', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  const noMoney = (): Promise<never> => Promise.reject(new Error('no money'));
  const sell = (manager: EntityManager): Promise<unknown> => stock.takeOne(manager);

  const nestedWithCallback = (manager: EntityManager): Promise<void> =>
    expect(manager.transaction(sell)).rejects.toThrow('no mail server');

  async function nestedByHand(runner: QueryRunner): Promise<void> {
    await expect(runner.startTransaction()).rejects.toThrow('no mail server');
    await runner.rollbackTransaction().catch(() => {});
  }

  const openedByHand = byHand((runner) => runner.rollbackTransaction().catch(() => {}));

  type End = () => Promise<unknown>;

  const SALES: Record<string, (dataSource: DataSource, end: End) => Promise<unknown>> = {
    'a data source': (dataSource, end) =>
      dataSource.transaction(async (manager) => {
        await sell(manager);
        await nestedWithCallback(manager);
        await sell(manager);
        await end();
      }),
    'a query runner driven manually, with a callback': (dataSource, end) =>
      openedByHand(dataSource, async (runner) => {
        await sell(runner.manager);
        await nestedWithCallback(runner.manager);
        await sell(runner.manager);
        await end();
      }),
    'a query runner driven manually, by hand': (dataSource, end) =>
      openedByHand(dataSource, async (runner) => {
        await sell(runner.manager);
        await nestedByHand(runner);
        await sell(runner.manager);
        await end();
      }),
  };

  describe.each(
    Object.entries(SALES).flatMap(([name, sale]) =>
      (['under a lock', 'without one'] as const).map((where) => [name, where, sale] as const),
    ),
  )('a nested transaction whose start fails in a hook: on %s, %s', (_, where, sale) => {
    /** Runs a sale on a pool of one connection. The hook throws at the nested transaction. */
    async function run(
      hook: 'beforeTransactionStart' | 'afterTransactionStart',
      end: End,
    ): Promise<void> {
      const dataSource = lockAwareDataSource(
        await openDataSource('postgres', postgres.settings, 1),
      );
      const { locks } = await startLocks(redis.url, { fence: true });
      let calls = 0;
      dataSource.subscribers.push({
        [hook]: () => {
          if (++calls === 2) throw new Error('no mail server');
        },
      });
      const work = (): Promise<unknown> => sale(dataSource, end);
      try {
        await (where === 'under a lock' ? locks.withLock(stock.key, work) : work());
      } finally {
        expect(await isHeld(redis.url, stock.key)).toBe(false);
        await dataSource.transaction((manager) => manager.query('SELECT 1')); // would commit what is open
      }
    }

    it('does not end the outer transaction, after the savepoint was sent', async () => {
      await run('afterTransactionStart', async () => {});
      expect(await stock.quantity()).toBe(98);
    });

    it('does not keep a transaction open that fails, after the savepoint was sent', async () => {
      await expect(run('afterTransactionStart', noMoney)).rejects.toThrow('no money');
      expect(await stock.quantity()).toBe(100);
    });

    // TypeORM assumes that the transaction has ended, and sends neither COMMIT nor ROLLBACK.
    it('does not keep the transaction open, before the savepoint was sent', async () => {
      const committed = run('beforeTransactionStart', async () => {});
      await expect(committed).rejects.toThrow('Transaction is not started yet');
      expect(await stock.quantity()).toBe(100);
    });

    it('does not keep a transaction open that fails, before the savepoint was sent', async () => {
      await expect(run('beforeTransactionStart', noMoney)).rejects.toThrow('no money');
      expect(await stock.quantity()).toBe(100);
    });
  });

  describe.each(['under a lock', 'without one'])(
    'a second try of a nested transaction, %s',
    (where) => {
      it('is nested again after a hook has failed before the savepoint was sent', async () => {
        const dataSource = lockAwareDataSource(
          await openDataSource('postgres', postgres.settings, 1),
        );
        const { locks } = await startLocks(redis.url, { fence: true });
        let calls = 0;
        dataSource.subscribers.push({
          beforeTransactionStart: () => {
            if (++calls === 2) throw new Error('no mail server');
          },
        });
        const work = (): Promise<unknown> =>
          openedByHand(dataSource, async ({ manager }) => {
            await sell(manager);
            await nestedWithCallback(manager);
            const failing = manager.transaction((nested) => sell(nested).then(noMoney));
            await expect(failing).rejects.toThrow('no money'); // rolls back to its savepoint only
            await manager.transaction(sell);
          });
        await (where === 'under a lock' ? locks.withLock(stock.key, work) : work());
        expect(await stock.quantity()).toBe(98);
      });
    },
  );
});

describe('the opening of a nested transaction', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  /** TypeORM counts a nested transaction after its savepoint is set, but calls its subscribers before. */
  describe('a nested transaction that is still being opened when its transaction ends', () => {
    it.each([true, false])('forbids the commit (fence: %s)', async (fence) => {
      const dataSource = lockAwareDataSource(
        await openDataSource('postgres', postgres.settings, 1),
      );
      const { locks } = await startLocks(redis.url, { fence });
      let goOn = (): void => {};
      const delay = new Promise<void>((resolve) => (goOn = resolve));
      let openings = 0;
      dataSource.subscribers.push({
        beforeTransactionStart: async () => {
          if (openings++ > 0) await delay; // the first call is for the outer transaction
        },
      });
      let nested: Promise<string> | undefined;
      const sale = locks.withLock(stock.key, () =>
        dataSource.transaction(async (manager) => {
          await stock.takeOne(manager);
          nested = manager
            .transaction((inner) => stock.takeOne(inner))
            .then(
              () => 'done',
              () => 'failed',
            );
        }),
      );
      await expect(sale).rejects.toThrow(/a nested transaction .* is still open/);
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      goOn();
      expect(await nested).toBe('failed');
      expect([openings, await isHeld(redis.url, stock.key), await stock.quantity()]).toEqual([
        2,
        false,
        100,
      ]);
    });
  });
});

describe('the rollback of a nested transaction', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  type Where = 'under a lock' | 'without one';
  const WHERE: readonly Where[] = ['under a lock', 'without one'];

  /** Opens a pool of one connection. */
  async function start(subscriber: EntitySubscriberInterface = {}) {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));
    dataSource.subscribers.push(subscriber);
    const { locks } = await startLocks(redis.url, { fence: true });
    const run = <T>(where: Where, work: () => Promise<T>): Promise<T> =>
      where === 'under a lock' ? locks.withLock(stock.key, work) : work();
    return { dataSource, run };
  }

  const outOfCredit = (): Promise<never> => Promise.reject(new Error('out of credit'));

  /** A hook that throws on its first call, which is around the rollback of the nested transaction. */
  function throwsOnce(): () => Promise<void> {
    let calls = 0;
    return async () => {
      if (calls++ === 0) throw new Error('no mail server');
    };
  }

  const nestedWithCallback = async ({ manager }: Pick<QueryRunner, 'manager'>): Promise<void> => {
    const nested = manager.transaction(async (inner) => {
      await stock.takeOne(inner);
      await outOfCredit();
    });
    await expect(nested).rejects.toThrow('out of credit');
  };

  const nestedByHand = async (runner: QueryRunner): Promise<void> => {
    await runner.startTransaction();
    await stock.takeOne(runner);
    await expect(runner.rollbackTransaction()).rejects.toThrow('no mail server');
  };

  const withoutSavepoint = async (runner: QueryRunner): Promise<void> => {
    await runner.startTransaction();
    await runner.query('RELEASE SAVEPOINT typeorm_1');
    await expect(runner.rollbackTransaction()).rejects.toThrow('does not exist');
  };

  type Case = readonly [string, Where, (runner: QueryRunner) => Promise<void>, 'hook' | 'database'];

  const NOT_ROLLED_BACK = WHERE.flatMap((where): readonly Case[] => [
    ['with a callback', where, nestedWithCallback, 'hook'],
    ['by hand', where, nestedByHand, 'hook'],
    ['by hand, without its savepoint', where, withoutSavepoint, 'database'],
  ]);

  const openTransactions = async (): Promise<number> => {
    const [row] = await postgres.query<{ n: number }>(
      "SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'",
    );
    return row?.n as number;
  };

  /** Commits a transaction without a lock on the same connection. */
  const commitNext = (dataSource: DataSource): Promise<unknown> =>
    dataSource.transaction((manager) => manager.query('SELECT 1'));

  describe.each(NOT_ROLLED_BACK)(
    'a nested transaction, %s and %s, whose rollback does not go through',
    (_, where, nest, fault) => {
      const startFaulty = () =>
        start(fault === 'hook' ? { beforeTransactionRollback: throwsOnce() } : {});

      it('does not keep the outer transaction open', async () => {
        const { dataSource, run } = await startFaulty();
        const sale = run(where, async () => {
          const runner = dataSource.createQueryRunner();
          try {
            await runner.startTransaction();
            await stock.takeOne(runner);
            await nest(runner);
            await outOfCredit();
          } catch (error) {
            await runner.rollbackTransaction().catch(() => {});
            throw error;
          } finally {
            await runner.release();
          }
        });
        await expect(sale).rejects.toThrow('out of credit');
        expect([await isHeld(redis.url, stock.key), await openTransactions()]).toEqual([false, 0]);
        await commitNext(dataSource);
        expect(await stock.quantity()).toBe(100);
      });
    },
  );

  describe.each(NOT_ROLLED_BACK.filter(([, where]) => where === 'under a lock'))(
    'a nested transaction, %s and %s, whose rollback does not go through',
    (_, where, nest, fault) => {
      const startOn = async () => {
        const { dataSource, run } = await start(
          fault === 'hook' ? { beforeTransactionRollback: throwsOnce() } : {},
        );
        const runner = dataSource.createQueryRunner();
        const sell = (end: 'commitTransaction' | 'rollbackTransaction'): Promise<void> =>
          run(where, async () => {
            await runner.startTransaction();
            await stock.takeOne(runner);
            await nest(runner);
            await runner[end]();
          });
        return { runner, sell };
      };

      it('is rolled back with the outer transaction, before the runner is released', async () => {
        const { runner, sell } = await startOn();
        await sell('rollbackTransaction');
        expect([await isHeld(redis.url, stock.key), await openTransactions()]).toEqual([false, 0]);
        await runner.release();
        expect(await stock.quantity()).toBe(100);
      });

      it('forbids the commit: the transaction is rolled back by the release of the runner', async () => {
        const { runner, sell } = await startOn();
        const sale = sell('commitTransaction').finally(() => runner.release());
        await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
        expect([await isHeld(redis.url, stock.key), await openTransactions()]).toEqual([false, 0]);
        expect(await stock.quantity()).toBe(100);
      });
    },
  );

  describe('without a lock, a nested transaction whose rollback has failed', () => {
    it('may be rolled back once more, and the outer transaction continues', async () => {
      const { dataSource } = await start({ beforeTransactionRollback: throwsOnce() });
      const runner = dataSource.createQueryRunner();
      await runner.startTransaction();
      await stock.takeOne(runner);
      await nestedByHand(runner);
      await runner.rollbackTransaction();
      await stock.takeOne(runner);
      await runner.commitTransaction();
      await runner.release();
      expect(await stock.quantity()).toBe(98);
    });

    it('may receive the commit: a transaction under a lock does not begin on that runner', async () => {
      const { dataSource, run } = await start({ beforeTransactionRollback: throwsOnce() });
      const runner = dataSource.createQueryRunner();
      await runner.startTransaction();
      await nestedWithCallback(runner);
      await runner.commitTransaction();
      expect(runner.isTransactionActive).toBe(true); // TypeORM has sent no COMMIT
      const sale = run('under a lock', () => runner.startTransaction());
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      await runner.release();
      expect(await stock.quantity()).toBe(100);
    });
  });

  describe.each(WHERE)(
    'a hook that throws after the rollback of a nested transaction, %s',
    (where) => {
      it.each([
        ['with a callback', nestedWithCallback],
        ['by hand', nestedByHand],
      ])('does not end the transaction of a query runner (%s)', async (_, nest) => {
        const { dataSource, run } = await start({ afterTransactionRollback: throwsOnce() });
        await run(where, async () => {
          const runner = dataSource.createQueryRunner();
          await runner.startTransaction();
          await stock.takeOne(runner);
          await nest(runner);
          await stock.takeOne(runner);
          await runner.commitTransaction();
          await runner.release();
        });
        expect(await stock.quantity()).toBe(98);
      });

      it('does not end the transaction of a data source', async () => {
        const { dataSource, run } = await start({ afterTransactionRollback: throwsOnce() });
        await run(where, () =>
          dataSource.transaction(async (manager) => {
            await stock.takeOne(manager);
            await nestedWithCallback({ manager });
            await stock.takeOne(manager);
          }),
        );
        expect(await stock.quantity()).toBe(98);
      });
    },
  );

  describe('a hook that commits a nested transaction before its rollback', () => {
    /** TypeORM then rolls back the outer transaction, because no savepoint is open any more. */
    it('leaves nothing for which the next transaction of the runner must wait', async () => {
      let calls = 0;
      const { dataSource, run } = await start({
        beforeTransactionRollback: async ({ queryRunner }) => {
          if (calls++ === 0) await queryRunner.commitTransaction();
        },
      });
      const runner = dataSource.createQueryRunner();
      await run('under a lock', async () => {
        await runner.startTransaction();
        await stock.takeOne(runner);
        await runner.startTransaction();
        await runner.rollbackTransaction();
        await runner.startTransaction();
        await stock.takeOne(runner);
        await runner.commitTransaction();
        await runner.release();
      });
      expect(await stock.quantity()).toBe(99);
    });
  });
});

describe('a nested transaction without a savepoint', () => {
  const redis = useRedis();

  const failing = async (): Promise<never> => Promise.reject(new Error('out of credit'));

  /** In each of these, TypeORM mistakes the end of a nested transaction for the end of the outer one. */
  const WITHOUT_SAVEPOINT: Readonly<Record<string, Work>> = {
    'its body has rolled it back, and throws': ({ manager }) =>
      manager.transaction(async ({ queryRunner }) => {
        await queryRunner?.rollbackTransaction();
        await failing();
      }),
    'its body has committed it': ({ manager }) =>
      manager.transaction(async ({ queryRunner }) => queryRunner?.commitTransaction()),
  };

  const ON_POSTGRES: Readonly<Record<string, Work>> = {
    ...WITHOUT_SAVEPOINT,
    'an error was swallowed before it': async (runner) => {
      await runner.query('SELECT 1 / 0').catch(() => {});
      await runner.manager.transaction(() => runner.query('SELECT 1'));
    },
    'an error was swallowed in it, before one that is nested in it': ({ manager }) =>
      manager.transaction(async (nested) => {
        await nested.query('SELECT 1 / 0').catch(() => {});
        await nested.transaction((inner) => inner.query('SELECT 1')).catch(() => {});
      }),
  };

  const ENDS: Readonly<Record<string, OpensTransaction>> = {
    'committed by hand': byHand((runner) => runner.rollbackTransaction()),
    'disposed of': async (dataSource, body) => {
      const runner = dataSource.createQueryRunner();
      try {
        await runner.startTransaction();
        await body(runner);
      } finally {
        await runner[Symbol.asyncDispose]();
      }
    },
  };

  function nestedWithoutSavepoint(
    type: 'postgres' | 'mysql',
    database: TestDatabase,
    nesting: Readonly<Record<string, Work>>,
  ): void {
    const stock = useStock(database, type);
    const cases = Object.entries(nesting).flatMap(([name, nested]) =>
      Object.entries(ENDS).map(([end, run]) => ({ name, nested, end, run })),
    );

    const start = async () => {
      const dataSource = lockAwareDataSource(await openDataSource(type, database.settings, 1));
      const { locks } = await startLocks(redis.url, { fence: true });
      return { dataSource, locks };
    };

    it.each(cases)('forbids the commit: $name, $end', async ({ nested, run }) => {
      const { dataSource, locks } = await start();
      const sale = locks.withLock(stock.key, () =>
        run(dataSource, async (runner) => {
          await stock.takeOne(runner);
          await nested(runner).catch(() => {});
        }),
      );
      await expect(sale).rejects.toThrow(/A nested transaction in it would have ended it wholly/);
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      await dataSource.transaction((manager) => manager.query('SELECT 1')); // would commit what was left open
      expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([100, false]);
    });

    it.each(cases)('accepts no other statement: $name, $end', async ({ nested, run }) => {
      const { dataSource, locks } = await start();
      let refusal: unknown;
      const sale = locks.withLock(stock.key, () =>
        run(dataSource, async (runner) => {
          await nested(runner).catch(() => {});
          await stock.takeOne(runner).catch((error: unknown) => (refusal = error));
        }),
      );
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      expect(refusal).toBeInstanceOf(LockInTransactionError);
      expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([100, false]);
    });

    it('is left to TypeORM without a lock', async () => {
      const { dataSource } = await start();
      const runner = dataSource.createQueryRunner();
      await runner.startTransaction();
      await nesting['its body has rolled it back, and throws']?.(runner).catch(() => {});
      expect(runner.isTransactionActive).toBe(false);
      await runner.release();
    });
  }

  describe('a nested transaction without a savepoint, on a query runner driven manually', () =>
    nestedWithoutSavepoint('postgres', usePostgres(), ON_POSTGRES));

  describeWithMariaDb('on MariaDB, a nested transaction without a savepoint', () =>
    nestedWithoutSavepoint('mysql', useMariaDb(), WITHOUT_SAVEPOINT),
  );
});

describe('a nested transaction that is left open', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  /** Transactions on a pool of one connection. */
  interface Shop {
    /** Releases the connection in the middle of a transaction, in code without locks. */
    leaveOpen(): Promise<unknown>;
    transaction(body: (tx: Runs) => Promise<unknown>): Promise<unknown>;
  }

  const takeFifty = (runs: Runs): Promise<unknown> =>
    runs.query('UPDATE stock SET quantity = quantity - 50 WHERE id = $1', [stock.product]);

  /** Ends before its nested transaction, so that TypeORM sends no COMMIT, but succeeds. */
  const outlived = async (manager: EntityManager): Promise<void> => {
    await takeFifty(manager);
    const [begun, over] = [makeGate(), makeGate()];
    afterTest(() => over.open());
    const nested = manager.transaction(async () => {
      begun.open();
      await over.opened;
    });
    nested.catch(() => {});
    await begun.opened;
  };

  const openLockAware = async (): Promise<DataSource> =>
    lockAwareDataSource(await openDataSource('postgres', postgres.settings, 1));

  async function byHand(
    runner: QueryRunner,
    body: (tx: Runs) => Promise<unknown>,
  ): Promise<unknown> {
    try {
      await runner.startTransaction();
      const result = await body(runner);
      await runner.commitTransaction();
      return result;
    } catch (error) {
      await runner.rollbackTransaction().catch(() => {});
      throw error;
    }
  }

  const onNodePostgres = (
    last: (client: pg.PoolClient) => void,
    first = 'BEGIN',
  ): (() => Promise<Shop>) => {
    return async () => {
      const pool = new pg.Pool({ connectionString: postgres.url, max: 1 });
      afterTest(() => pool.end());
      const run = lockAwareTransactions<pg.PoolClient>({ dialect: 'postgres', pool });
      return {
        leaveOpen: async () => {
          const client = await pool.connect();
          await client.query(first);
          await takeFifty(client);
          last(client);
          client.release();
        },
        transaction: (body) =>
          run(async (wrap) => {
            const client = await pool.connect();
            try {
              await client.query('BEGIN');
              const query = async (sql: string, params: unknown[]): Promise<unknown> =>
                (await client.query<pg.QueryResultRow>(sql, params)).rows;
              const result = await wrap(client, () => body({ query }));
              await client.query('COMMIT');
              return result;
            } catch (error) {
              await client.query('ROLLBACK').catch(() => {});
              throw error;
            } finally {
              client.release();
            }
          }),
      };
    };
  };

  const sleep = (client: pg.PoolClient): void =>
    void client.query('SELECT pg_sleep(0.5)').catch(() => {});

  const SHOPS: Record<string, () => Promise<Shop>> = {
    'a data source': async () => {
      const dataSource = await openLockAware();
      return {
        leaveOpen: () => dataSource.transaction(outlived),
        transaction: (body) => dataSource.transaction((manager) => body(manager)),
      };
    },
    'a query runner driven manually': async () => {
      const dataSource = await openLockAware();
      return {
        leaveOpen: () => dataSource.transaction(outlived),
        transaction: async (body) => {
          const runner = dataSource.createQueryRunner();
          return byHand(runner, body).finally(() => runner.release());
        },
      };
    },
    'a query runner that was connected before': async () => {
      const dataSource = await openLockAware();
      return {
        leaveOpen: () => dataSource.transaction(outlived),
        transaction: async (body) => {
          const runner = dataSource.createQueryRunner();
          await runner.connect();
          return byHand(runner, body).finally(() => runner.release());
        },
      };
    },
    'node-postgres': onNodePostgres(() => {}),
    'node-postgres, with a statement that is not answered yet': onNodePostgres(sleep),
  };

  const openTransactions = async (): Promise<number> => {
    const [row] = await postgres.query<{ n: number }>(
      "SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND (state LIKE 'idle in transaction%' OR query LIKE '%pg_sleep(0.5)')",
    );
    return row?.n as number;
  };

  const isRefused = async (sale: Promise<unknown>): Promise<void> => {
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    await expect(sale).rejects.toThrow(/in the middle of another transaction/);
  };

  describe.each(Object.entries(SHOPS))(
    'a connection that is still in a transaction: %s',
    (_, open) => {
      it.each([true, false])(
        'is not used for a transaction under a lock (fence: %s)',
        async (fence) => {
          const shop = await open();
          const { locks } = await startLocks(redis.url, fence ? { fence: true } : {});
          await shop.leaveOpen();
          expect(await openTransactions()).toBe(1);
          let runs = 0;
          const sell = (): Promise<unknown> =>
            locks.withLock(stock.key, () =>
              shop.transaction(async (tx) => {
                runs++;
                await stock.takeOne(tx);
              }),
            );
          await isRefused(sell());
          expect([runs, await isHeld(redis.url, stock.key)]).toEqual([0, false]);
          expect(await stock.quantity()).toBe(100);
          await sell(); // on another connection
          expect(await stock.quantity()).toBe(99);
        },
      );

      it('is used without a lock as without the library', async () => {
        const shop = await open();
        await startLocks(redis.url, { fence: true });
        await shop.leaveOpen();
        await shop.transaction((tx) => stock.takeOne(tx));
        expect([await stock.quantity(), await openTransactions()]).toEqual([49, 0]);
      });
    },
  );

  describe('a lock requested in a transaction that has begun in another one', () => {
    it.each(['a data source', 'node-postgres'])('is refused: %s', async (name) => {
      const shop = await (SHOPS[name] as () => Promise<Shop>)();
      const { locks } = await startLocks(redis.url, { insideTransaction: 'join' });
      await shop.leaveOpen();
      const sale = shop.transaction((tx) => locks.withLock(stock.key, () => stock.takeOne(tx)));
      await isRefused(sale);
      await eventually(async () => expect(await openTransactions()).toBe(0));
      expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([100, false]);
    });
  });

  describe('a query runner whose transaction was never committed, because a nested one was open', () => {
    const opened: [string, (runner: QueryRunner) => Promise<unknown>][] = [
      ['with a callback', (runner) => runner.manager.transaction(outlived)],
      ['by hand', (runner) => byHand(runner, () => outlived(runner.manager))],
    ];
    const sold: [string, (runner: QueryRunner) => Promise<unknown>][] = [
      ['with a callback', (runner) => runner.manager.transaction((tx) => stock.takeOne(tx))],
      ['by hand', (runner) => byHand(runner, (tx) => stock.takeOne(tx))],
    ];

    it.each(
      opened.flatMap(([leaving, leave]) =>
        sold.map(([selling, sell]) => [leaving, selling, leave, sell] as const),
      ),
    )(
      'does not mistake a savepoint for a commit under a lock: left %s, and used %s',
      async (_, __, leave, sell) => {
        const dataSource = await openLockAware();
        const { locks } = await startLocks(redis.url, { fence: true });
        const runner = dataSource.createQueryRunner();
        await leave(runner);
        await isRefused(locks.withLock(stock.key, () => sell(runner)));
        await eventually(async () => expect(await openTransactions()).toBe(0));
        await runner.release();
        expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([100, false]);
        const other = dataSource.createQueryRunner();
        await locks.withLock(stock.key, () => sell(other));
        await other.release();
        expect(await stock.quantity()).toBe(99);
      },
    );
  });

  describe('such a query runner that was released', () => {
    it('does not touch the connection, which has another user', async () => {
      const dataSource = await openLockAware();
      const { locks } = await startLocks(redis.url, { fence: true });
      const runner = dataSource.createQueryRunner();
      await byHand(runner, () => outlived(runner.manager));
      await runner.release();
      const other = dataSource.createQueryRunner();
      const [mine] = (await other.query('SELECT pg_backend_pid() AS pid')) as { pid: number }[];
      await isRefused(locks.withLock(stock.key, () => runner.startTransaction()));
      expect(await other.query('SELECT pg_backend_pid() AS pid')).toEqual([mine]);
      await other.query('ROLLBACK');
      await other.release();
      expect([await stock.quantity(), await isHeld(redis.url, stock.key)]).toEqual([100, false]);
    });
  });

  describe('a BEGIN in the body', () => {
    it('does no harm: the server warns and continues', async () => {
      const shop = await onNodePostgres(sleep, 'SELECT 1')();
      const { locks } = await startLocks(redis.url, { insideTransaction: 'join' });
      await shop.leaveOpen(); // leaves no transaction, but a statement that is not answered yet
      await locks.withLock(`${stock.key}:around`, () =>
        shop.transaction(async (tx) => {
          await tx.query('BEGIN', []);
          await locks.withLock(stock.key, () => stock.takeOne(tx));
        }),
      );
      expect(await stock.quantity()).toBe(49);
    });
  });
});
