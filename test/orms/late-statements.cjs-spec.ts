import { beforeAll, describe, expect, it } from '@jest/globals';
import { ClsPluginTransactional, TransactionHost } from '@nestjs-cls/transactional';
import { ClsModule } from 'nestjs-cls';
import {
  LockInTransactionError,
  type LockOptions,
  LockService,
  RedisLockModule,
  type RedisLockModuleOptions,
} from 'nestjs-locked';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import postgresJs from 'postgres';
import type { DataSource, EntityManager, EntitySubscriberInterface } from 'typeorm';
import { afterTest } from '../support/after-test.js';
import { useMariaDb, usePostgres } from '../support/databases.js';
import { describeWithMariaDb } from '../support/describe-if.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { startNest } from '../support/nest-app.js';
import { useRedis } from '../support/shared-redis.js';
import { openDataSource } from '../transactions/data-source.js';
import { isHeld, startLocks } from '../transactions/locks.js';
import { inTransaction } from '../transactions/recipes/postgres-js.js';
import { createSlowCommitTable } from '../transactions/slow-commit.js';
import { type Runs, useStock } from '../transactions/stock.js';
import { RESTARTING_ORMS, type RestartingOrm } from './restarting-orms.js';

describe('statements that nobody awaits', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  beforeAll(async () => {
    await createSlowCommitTable(postgres);
    await postgres.query(
      'CREATE TABLE sales (product text NOT NULL, transaction bigint DEFAULT txid_current())',
    );
  });

  const POSTGRES_JS: RestartingOrm = {
    name: 'postgres.js',
    async start(redisUrl, { url }, options) {
      const sql = postgresJs(url, { onnotice: () => {} });
      afterTest(() => sql.end({ timeout: 0 }));
      const { locks } = await startLocks(redisUrl, options);
      return {
        locks,
        transaction: (body) =>
          inTransaction(sql, (tx) =>
            body(() => ({ query: async (text, params: string[]) => tx.unsafe(text, params) })),
          ),
      };
    },
  };

  const ORMS = [...RESTARTING_ORMS, POSTGRES_JS].map((orm) => [orm.name, orm] as const);

  const NOTE = 'INSERT INTO sales (product) VALUES ($1)';
  /** Makes the COMMIT take two seconds. */
  const SLOW = 'INSERT INTO slow VALUES (1)';

  const note = (tx: Runs): Promise<unknown> => tx.query(NOTE, [stock.product]);

  /** The number of rows that each transaction has committed, whatever its caller was told. */
  const sales = async (): Promise<readonly number[]> => {
    const rows = await postgres.query<{ n: number }>(
      'SELECT count(*)::int AS n FROM sales WHERE product = $1 GROUP BY transaction',
      [stock.product],
    );
    return rows.map(({ n }) => n);
  };

  /** Drizzle and TypeORM wrap the error of the driver. */
  interface FromDriver extends Error {
    readonly driverError?: unknown;
  }

  type Told = 'done' | 'refused' | 'failed';

  /** `failed`: refused by the ORM or its connection, not by the lock. */
  const told = (statement: Promise<unknown>): Promise<Told> =>
    statement.then(
      () => 'done' as const,
      (error: FromDriver) =>
        [error, error.cause, error.driverError].some(isOurs) ? 'refused' : 'failed',
    );

  const isOurs = (error: unknown): boolean => error instanceof LockInTransactionError;

  const commits = async (): Promise<void> => {
    const [row] = await postgres.query<{ n: number }>(
      `SELECT count(*)::int AS n FROM pg_stat_activity
     WHERE upper(query) LIKE 'COMMIT%' AND state = 'active' AND datname = current_database()`,
    );
    if (row?.n !== 1) throw new Error('No connection is committing');
  };

  describe.each(ORMS)(
    'a statement that nobody awaits in a transaction under a lock: %s',
    (_, orm) => {
      const refused = orm.name.startsWith('Knex') ? 'failed' : 'refused'; // Knex itself refuses it

      it('is refused while the COMMIT is in flight', async () => {
        const { locks, transaction } = await orm.start(redis.url, postgres, { fence: {} });
        const committing = makeGate();
        let late: Promise<Told> | undefined;
        const sale = locks.withLock(stock.key, () =>
          transaction(async (tx) => {
            const own = tx();
            await own.query(SLOW, []);
            await note(own);
            late = told(committing.opened.then(() => note(own)));
          }),
        );
        await eventually(commits);
        committing.open();
        expect(await late).toBe(refused);
        await sale;
        expect(await sales()).toEqual([1]);
        expect(await isHeld(redis.url, stock.key)).toBe(false);
      });

      it('is part of the transaction or refused, whenever it is sent', async () => {
        const { locks, transaction } = await orm.start(redis.url, postgres, { fence: {} });
        const outcomes: string[] = [];
        for (let ticks = 0; ticks < 40; ticks++) {
          let late: Promise<Told> | undefined;
          await locks.withLock(stock.key, () =>
            transaction(async (tx) => {
              const own = tx();
              await postgres.query('DELETE FROM sales WHERE product = $1', [stock.product]);
              await note(own);
              const later = async (): Promise<void> => {
                for (let tick = 0; tick < ticks; tick++) {
                  await (tick % 4 === 3
                    ? new Promise((resolve) => setImmediate(resolve))
                    : undefined);
                }
                await note(own);
              };
              late = told(later());
            }),
          );
          const answer = await late;
          outcomes.push(`${answer === 'done' ? 'done' : 'refused'} ${(await sales()).join('+')}`);
        }
        expect(new Set(outcomes)).toEqual(new Set(['done 2', 'refused 1']));
      });
    },
  );

  /** A branch that the body does not await. It continues on request. */
  function makeBranch() {
    const { opened, open } = makeGate();
    let answer: Promise<Told> | undefined;
    return {
      /** Resolves when the branch continues. */
      goesOn: opened,
      goOn: open,
      begin: (send: () => Promise<unknown>) => void (answer = told(opened.then(send))),
      get told() {
        return answer;
      },
    };
  }

  describe('a statement that nobody awaits, around the COMMIT of TypeORM', () => {
    type Branch = ReturnType<typeof makeBranch>;

    /** @param subscribe acts around the COMMIT of a transaction with such a branch */
    const start = async (subscribe: (branch: Branch) => EntitySubscriberInterface, sql = NOTE) => {
      const dataSource = lockAwareDataSource(
        await openDataSource('postgres', postgres.settings, 1),
      );
      const { locks } = await startLocks(redis.url, { fence: true });
      const branch = makeBranch();
      dataSource.subscribers.push(subscribe(branch));
      const sell = (first = 'SELECT 1'): Promise<unknown> =>
        dataSource.transaction(async (manager) => {
          await manager.query(first);
          await note(manager);
          branch.begin(() => manager.query(sql, sql === NOTE ? [stock.product] : []));
        });
      return { branch, locks, sell };
    };
    const beforeCommit = (branch: Branch): EntitySubscriberInterface => ({
      beforeTransactionCommit: async () => {
        branch.goOn();
        await branch.told;
      },
    });

    it('is a part of the transaction before it', async () => {
      const { branch, locks, sell } = await start(beforeCommit);
      await locks.withLock(stock.key, () => sell());
      expect([await branch.told, await sales()]).toEqual(['done', [2]]);
    });

    it('lets the transaction fail if it fails before it', async () => {
      const { branch, locks, sell } = await start(beforeCommit, 'SELECT 1 / 0');
      const sale = locks.withLock(stock.key, () => sell());
      await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
      expect([await branch.told, await sales()]).toEqual(['failed', []]);
    });

    it('is refused after it, unless a hook sends it', async () => {
      const { branch, locks, sell } = await start(({ goOn }) => ({
        afterTransactionCommit: async ({ manager }) => {
          await note(manager);
          goOn();
          await branch.told;
        },
      }));
      await locks.withLock(stock.key, () => sell());
      expect([await branch.told, await sales()]).toEqual(['refused', [1, 1]]);
    });

    it('is refused if a subscriber keeps it until the COMMIT was sent', async () => {
      const kept = makeGate();
      const { branch, locks, sell } = await start(({ goesOn, goOn }) => {
        let isOpen = false;
        void goesOn.then(() => (isOpen = true));
        return {
          beforeTransactionCommit: () => {
            goOn();
            return kept.opened;
          },
          beforeQuery: async ({ query }) => {
            if (!isOpen || query !== NOTE) return;
            kept.open();
            await eventually(commits);
          },
        };
      });
      await locks.withLock(stock.key, () => sell(SLOW));
      expect([await branch.told, await sales()]).toEqual(['refused', [1]]);
    });

    it('is sent without a lock as without the library', async () => {
      const { branch, sell } = await start(() => ({}));
      const sale = sell(SLOW);
      await eventually(commits);
      branch.goOn();
      await sale;
      expect([await branch.told, await sales()]).toEqual(['done', [1, 1]]);
    });
  });

  describeWithMariaDb('a statement that nobody awaits, on MariaDB', () => {
    const mariadb = useMariaDb();
    const shop = useStock(mariadb, 'mysql');

    it('is refused before the COMMIT: a deadlock there would silently undo the transaction', async () => {
      const dataSource = lockAwareDataSource(await openDataSource('mysql', mariadb.settings, 1));
      const { locks } = await startLocks(redis.url, { fence: true });
      const branch = makeBranch();
      dataSource.subscribers.push({
        beforeTransactionCommit: async () => {
          branch.goOn();
          await branch.told;
        },
      });
      await locks.withLock(shop.key, () =>
        dataSource.transaction(async (manager) => {
          await shop.takeOne(manager);
          branch.begin(() => shop.takeOne(manager));
        }),
      );
      expect([await branch.told, await shop.quantity()]).toEqual(['refused', 99]);
    });
  });
});

describe('a driver that repeats the body', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  const held = (): Promise<boolean> => isHeld(redis.url, stock.key);

  type Body = () => Promise<unknown>;

  /** Calls the body again after the first run has failed at its commit, as the drivers of MongoDB do. */
  function repeatingTransaction(dataSource: DataSource) {
    return {
      wrapWithTransaction: async (_: unknown, body: Body, setTx: (tx: EntityManager) => void) => {
        const run = (end: () => void): Promise<unknown> =>
          dataSource.transaction(async (manager) => {
            setTx(manager);
            const result = await body();
            end();
            return result;
          });
        try {
          return await run(() => {
            throw new Error('transient');
          });
        } catch (error) {
          if ((error as Error).message !== 'transient') throw error;
          return run(() => {});
        }
      },
      getFallbackInstance: () => dataSource.manager,
    };
  }

  const start = async (
    options: Omit<RedisLockModuleOptions, 'connection'> = {},
  ): Promise<{ host: TransactionHost<never>; locks: LockService }> => {
    const connection = await openDataSource('postgres', postgres.settings);
    const adapter = lockAwareAdapter({ connection, optionsFactory: repeatingTransaction });
    const app = await startNest({
      imports: [
        ClsModule.forRoot({ plugins: [new ClsPluginTransactional({ adapter })] }),
        RedisLockModule.forRoot({ connection: redis.url, ...options }),
      ],
    });
    return { host: app.get(TransactionHost), locks: app.get(LockService) };
  };

  describe('a driver that repeats the body by itself', () => {
    it('claims for each run, and keeps the outer lock until the last', async () => {
      const { host, locks } = await start({ fence: {} });
      let runs = 0;
      await Promise.all(
        Array.from({ length: 5 }, () =>
          locks.withLock(stock.key, () =>
            host.withTransaction(async () => {
              runs++;
              await stock.takeOne(host.tx);
            }),
          ),
        ),
      );
      expect([runs, await held(), await stock.quantity()]).toEqual([10, false, 95]);
    });

    it('takes a lock that was requested inside again in each run', async () => {
      const { host, locks } = await start({ fence: {}, insideTransaction: 'restart' });
      await Promise.all(
        Array.from({ length: 5 }, () =>
          host.withTransaction(async () => {
            await locks.withLock(stock.key, () => stock.takeOne(host.tx));
            expect(await held()).toBe(true);
          }),
        ),
      );
      expect([await held(), await stock.quantity()]).toEqual([false, 95]);
    });

    it('waits for the lock inside under join', async () => {
      const { host, locks } = await start({ insideTransaction: 'join' });
      const options: LockOptions = { waitMs: 5_000 };
      await Promise.all(
        Array.from({ length: 3 }, () =>
          host.withTransaction(() =>
            locks.withLock(stock.key, options, () => stock.takeOne(host.tx)),
          ),
        ),
      );
      expect([await held(), await stock.quantity()]).toEqual([false, 97]);
    });

    it('finds no key taken for the work of the previous run', async () => {
      const { host, locks } = await start({ insideTransaction: 'join' });
      const options = { waitMs: 0, onBusy: 'skip', holdAtLeastMs: 3_000 } as const;
      await host.withTransaction(() =>
        locks.withLock(stock.key, options, () => stock.takeOne(host.tx)),
      );
      expect([await held(), await stock.quantity()]).toEqual([true, 99]);
    });
  });
});
