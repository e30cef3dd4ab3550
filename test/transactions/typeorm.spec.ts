import { beforeAll, describe, expect, it } from '@jest/globals';
import {
  LockConfigError,
  LockFencedError,
  LockInTransactionError,
  LockLostError,
  type LockOptions,
  type LockService,
  type RedisLockModuleOptions,
} from 'nestjs-locked';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import { DataSource, type EntityManager, type QueryRunner } from 'typeorm';
import { setTimeout as sleep } from 'node:timers/promises';
import { usePostgres } from '../support/databases.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { PostgresProxy } from '../support/postgres-proxy.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';
import { openDataSource } from './data-source.js';
import { giveAway, isHeld, startLocks } from './locks.js';
import { createSlowCommitTable, killCommits } from './slow-commit.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
const stock = useStock(postgres);

beforeAll(() => createSlowCommitTable(postgres));

interface Started {
  readonly dataSource: DataSource;
  readonly locks: LockService;
}

interface StartOptions extends Omit<RedisLockModuleOptions, 'connection'> {
  readonly poolSize?: number;
}

const start = async ({ poolSize, ...options }: StartOptions = {}): Promise<Started> => ({
  dataSource: lockAwareDataSource(await openDataSource('postgres', postgres.settings, poolSize)),
  locks: (await startLocks(redis.url, options)).locks,
});

const held = (): Promise<boolean> => isHeld(redis.url, stock.key);

const ISOLATIONS = ['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'] as const;

type Open = (dataSource: DataSource, body: (manager: EntityManager) => Promise<void>) => unknown;

const OPENED_BY: [string, Open][] = [
  ['dataSource.transaction', (dataSource, body) => dataSource.transaction(body)],
  ['manager.transaction', (dataSource, body) => dataSource.manager.transaction(body)],
  [
    'manager.transaction with an isolation level',
    (dataSource, body) => dataSource.manager.transaction('READ COMMITTED', body),
  ],
  [
    'manager.transaction of a query runner',
    async (dataSource, body) => {
      const runner = dataSource.createQueryRunner();
      await runner.manager.transaction(body).finally(() => runner.release());
    },
  ],
];

describe('a lock around a transaction', () => {
  it.each(OPENED_BY)('is held until %s has committed', async (_, open) => {
    const { dataSource, locks } = await start();
    const [taken, end] = [makeGate(), makeGate()];
    let transaction: unknown;
    await locks.withLock(stock.key, async () => {
      transaction = open(dataSource, async (manager) => {
        await stock.takeOne(manager);
        taken.open();
        await end.opened;
      });
      await taken.opened;
    });
    expect([await held(), await stock.quantity()]).toEqual([true, 100]);
    end.open();
    await transaction;
    expect([await held(), await stock.quantity()]).toEqual([false, 99]);
  });

  it.each(ISOLATIONS)('loses no update at %s', async (isolation) => {
    const { dataSource, locks } = await start({ fence: {} });
    await Promise.all(
      Array.from({ length: 20 }, () =>
        locks.withLock(stock.key, () =>
          dataSource.transaction(isolation, (manager) => stock.takeOne(manager)),
        ),
      ),
    );
    expect(await stock.quantity()).toBe(80);
  });

  it('is claimed before the body runs', async () => {
    const { dataSource, locks } = await start({ fence: {} });
    await locks.withLock(stock.key, async ({ fencingToken }) => {
      await dataSource.transaction(async (manager) => {
        const [row] = await manager.query<{ token: string }[]>(
          'SELECT token FROM lock_fence WHERE lock_key = $1',
          [stock.key],
        );
        expect(Number(row?.token)).toBe(fencingToken);
      });
      expect(await stock.fence()).toBe(fencingToken);
    });
  });

  it('runs no body after a newer holder', async () => {
    const { dataSource, locks } = await start({ fence: {} });
    let ran = false;
    const sale = locks.withLock(stock.key, async ({ fencingToken }) => {
      await giveAway(redis.url, stock.key);
      await stock.raiseFence(fencingToken + 10_000_000);
      await dataSource.transaction(async () => void (ran = true));
    });
    await expect(sale).rejects.toBeInstanceOf(LockFencedError);
    expect(ran).toBe(false);
  });

  it.each([
    ['its own transaction', true],
    ["another request's transaction, in which the loss is noticed", false],
  ])('has ended for a listener of `signal`, which runs outside of %s', async (_, isOwn) => {
    const { dataSource, locks } = await start();
    const [taken, end] = [makeGate(), makeGate()];
    let asked: Promise<string> | undefined;
    const ask = (): void => void (asked = locks.withLock(uniqueKey(), () => 'taken'));
    const sale = locks.withLock(stock.key, async ({ signal }) => {
      const work = async (): Promise<void> => {
        signal.addEventListener('abort', ask);
        taken.open();
        await end.opened;
      };
      await (isOwn ? dataSource.transaction(work) : work());
    });
    const ended = Promise.allSettled([sale]);
    await taken.opened;
    await dataSource.transaction(async () => {
      await locks.forceRelease(stock.key);
      await eventually(() => expect(asked).toBeDefined());
    });
    end.open();
    await ended;
    expect(await asked).toBe('taken'); // inside a transaction, it would have been refused
  });

  it('prevents the commit after the lease was lost', async () => {
    const { dataSource, locks } = await start();
    const sale = locks.withLock(stock.key, () =>
      dataSource.transaction(async (manager) => {
        await stock.takeOne(manager);
        await locks.forceRelease(stock.key);
        await sleep(50);
      }),
    );
    await expect(sale).rejects.toBeInstanceOf(LockLostError);
    expect(await stock.quantity()).toBe(100);
  });

  it('turns a swallowed SQL error into an error', async () => {
    const { dataSource, locks } = await start();
    const sale = locks.withLock(stock.key, () =>
      dataSource.transaction(async (manager) => {
        await stock.takeOne(manager);
        await manager.query('SELECT * FROM nowhere').catch(() => {});
      }),
    );
    await expect(sale).rejects.toThrow(/current transaction is aborted/);
    expect(await stock.quantity()).toBe(100);
  });

  it('guards the whole transaction through its savepoints', async () => {
    const { dataSource, locks } = await start({ fence: {} });
    await locks.withLock(stock.key, () =>
      dataSource.transaction(async (manager) => {
        await manager.transaction((inner) => stock.takeOne(inner));
        const rolledBack = manager.transaction(async (inner) => {
          await stock.takeOne(inner);
          throw new Error('back to the savepoint');
        });
        await expect(rolledBack).rejects.toThrow('back to the savepoint');
        expect(await stock.quantity()).toBe(100);
      }),
    );
    expect(await stock.quantity()).toBe(99);
  });

  it('keeps the key if the COMMIT was not answered', async () => {
    const { dataSource, locks } = await start();
    const options: LockOptions = { leaseMs: 1_500, waitMs: 6_000 };
    const startedAt = performance.now();
    const sale = locks.withLock(stock.key, options, () =>
      dataSource.transaction(async (manager) => {
        await stock.takeOne(manager);
        await manager.query('INSERT INTO slow VALUES (1)');
      }),
    );
    await sleep(300);
    const next = locks.withLock(stock.key, options, async () => performance.now() - startedAt);
    await Promise.all([expect(sale).rejects.toThrow(), killCommits(postgres)]);
    expect(await held()).toBe(true);
    expect(await next).toBeGreaterThan(1_400);
  });

  it('is free at once if the connection died before the COMMIT', async () => {
    const { dataSource, locks } = await start();
    const sale = locks.withLock(stock.key, () =>
      dataSource.transaction(async (manager) => {
        await stock.takeOne(manager);
        await manager.query('SELECT pg_terminate_backend(pg_backend_pid())');
      }),
    );
    await expect(sale).rejects.toThrow();
    expect([await held(), await stock.quantity()]).toEqual([false, 100]);
  });
});

describe('a lock requested inside a transaction', () => {
  it.each(OPENED_BY)('is refused in %s', async (_, open) => {
    const { dataSource, locks } = await start();
    const sale = open(dataSource, () => locks.withLock(stock.key, async () => {}));
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    await expect(sale).rejects.toThrow(/the lock would not protect what was read before it/);
    expect(await held()).toBe(false);
  });

  it.each(ISOLATIONS)('restarts it at %s, and loses no update', async (isolation) => {
    const { dataSource, locks } = await start({ insideTransaction: 'restart', fence: {} });
    let runs = 0;
    await Promise.all(
      Array.from({ length: 20 }, () =>
        dataSource.transaction(isolation, async (manager) => {
          runs++;
          await manager.query('SELECT count(*) FROM stock');
          await locks.withLock(stock.key, () => stock.takeOne(manager));
        }),
      ),
    );
    expect(await stock.quantity()).toBe(80);
    expect(runs).toBeGreaterThan(20);
    expect(runs).toBeLessThanOrEqual(40);
  });

  it('restarts the transaction of a query runner through its manager, savepoints included', async () => {
    const { dataSource, locks } = await start({ insideTransaction: 'restart', fence: {} });
    const runner = dataSource.createQueryRunner();
    let runs = 0;
    await runner.manager.transaction('REPEATABLE READ', async (manager) => {
      runs++;
      await manager.transaction((inner) => locks.withLock(stock.key, () => stock.takeOne(inner)));
      expect(await held()).toBe(true);
    });
    expect([runs, await held(), await stock.quantity()]).toEqual([2, false, 99]);
    await locks.withLock(stock.key, async () => {
      await runner.startTransaction();
      await runner.manager.transaction((manager) => stock.takeOne(manager));
      expect(await stock.quantity()).toBe(99);
      await runner.commitTransaction();
    });
    await runner.release();
    expect([await held(), await stock.quantity()]).toEqual([false, 98]);
  });

  it('waits inside under join, but not on an old snapshot', async () => {
    const { dataSource, locks } = await start({ insideTransaction: 'join', fence: {} });
    await Promise.all(
      Array.from({ length: 4 }, () =>
        dataSource.transaction((manager) =>
          locks.withLock(stock.key, () => stock.takeOne(manager)),
        ),
      ),
    );
    expect(await stock.quantity()).toBe(96);
    await expect(
      dataSource.transaction('REPEATABLE READ', () => locks.withLock(stock.key, async () => {})),
    ).rejects.toThrow(/snapshot of its first read/);
  });

  it('stays until the outermost transaction has ended, whatever happens to a savepoint', async () => {
    const { dataSource, locks } = await start({ insideTransaction: 'restart' });
    await dataSource.transaction(async (manager) => {
      const savepoint = manager.transaction(async (inner) => {
        await locks.withLock(stock.key, () => stock.takeOne(inner));
        throw new Error('back to the savepoint');
      });
      await expect(savepoint).rejects.toThrow('back to the savepoint');
      expect(await held()).toBe(true);
    });
    expect([await held(), await stock.quantity()]).toEqual([false, 100]);
  });

  it('is claimed before the savepoint in which it was requested', async () => {
    const { dataSource, locks } = await start({ insideTransaction: 'restart', fence: {} });
    let runs = 0;
    await dataSource.transaction(async (manager) => {
      runs++;
      await manager.transaction((inner) => locks.withLock(stock.key, () => stock.takeOne(inner)));
    });
    expect([runs, await stock.quantity()]).toEqual([2, 99]);
    const joining = dataSource.transaction((manager) =>
      manager.transaction(() =>
        locks.withLock(stock.key, { insideTransaction: 'join' }, async () => {}),
      ),
    );
    await expect(joining).rejects.toThrow(/inside a savepoint/);
  });

  it('may be requested again without a time limit, whatever else the transaction keeps', async () => {
    const { dataSource, locks } = await start({ insideTransaction: 'join' });
    const [first, later] = [uniqueKey('a'), uniqueKey('b')];
    const done = dataSource.transaction(async () => {
      await locks.withLock(first, () => {});
      await locks.withLock(later, () => {});
      return locks.withLock(first, { waitMs: Infinity }, () => 'done');
    });
    expect(await done).toBe('done');
  });

  it('is an ordinary lock for work that the transaction did not await', async () => {
    const { dataSource, locks } = await start();
    let late: Promise<string> | undefined;
    await dataSource.transaction(async () => {
      late = sleep(200).then(() => locks.withLock(stock.key, async () => 'entered'));
    });
    expect(await late).toBe('entered');
    expect(await held()).toBe(false);
  });

  it('is an ordinary lock if the transaction has ended during the wait', async () => {
    const { dataSource, locks } = await start({ insideTransaction: 'join' });
    const other = await locks.acquire(stock.key);
    let late: Promise<string> | undefined;
    await dataSource.transaction('READ COMMITTED', async () => {
      late = locks.withLock(stock.key, async () => 'entered');
      await sleep(50);
    });
    await other.release();
    expect(await late).toBe('entered');
    expect(await held()).toBe(false);
  });
});

describe('the BEGIN of a transaction under a lock', () => {
  it.each(['afterTransactionStart', 'beforeTransactionStart'] as const)(
    'is sent before the first action of a subscriber: %s',
    async (hook) => {
      const { dataSource, locks } = await start({ fence: {}, poolSize: 2 });
      const seen: unknown[] = [];
      dataSource.subscribers.push({
        [hook]: async ({ queryRunner }: { queryRunner: QueryRunner }) => {
          // Inside the transaction, then outside of it.
          seen.push(await queryRunner.query('SELECT count(*)::int AS count FROM stock'));
          await dataSource.query('SELECT 1');
        },
      });
      for (let n = 0; n < 2; n++) {
        const sale = locks.withLock(stock.key, () =>
          dataSource.transaction('REPEATABLE READ', async (manager) => {
            const [row] = await manager.query<[{ level: string }]>(
              `SELECT current_setting('transaction_isolation') AS level`,
            );
            expect(row.level).toBe('repeatable read');
            await stock.takeOne(manager, 0);
            throw new Error('no stock');
          }),
        );
        await expect(sale).rejects.toThrow('no stock');
      }
      expect(seen).toHaveLength(2);
      expect([await stock.quantity(), await stock.fence()]).toEqual([100, NaN]);
    },
  );

  it('is not sent for a transaction whose outer one has claimed', async () => {
    const { dataSource, locks } = await start({ fence: {} });
    const sale = locks.withLock(stock.key, () =>
      dataSource.transaction(async (manager) => {
        await stock.takeOne(manager, 0);
        await dataSource.transaction(async () => {});
      }),
    );
    await expect(sale).rejects.toBeInstanceOf(LockInTransactionError);
    await dataSource.transaction((manager) => stock.takeOne(manager, 0));
    expect(await stock.quantity()).toBe(99);
  });
});

describe('a query runner driven manually', () => {
  it('takes one more round trip under a lock', async () => {
    const proxy = await PostgresProxy.start(postgres.url);
    const settings = {
      ...postgres.settings,
      host: '127.0.0.1',
      port: Number(new URL(proxy.url).port),
    };
    const dataSource = lockAwareDataSource(await openDataSource('postgres', settings, 1));
    const { locks } = await startLocks(redis.url, { fence: {} });
    const sell = async (): Promise<void> => {
      const runner = dataSource.createQueryRunner();
      await runner.startTransaction();
      await stock.takeOne(runner, 0);
      await runner.commitTransaction();
      await runner.release();
    };
    await locks.withLock(stock.key, sell);
    const plain = await proxy.roundTrips(sell);
    const locked = await locks.withLock(stock.key, () => proxy.roundTrips(sell));
    expect(locked).toBe(plain + 1);
  });

  it('claims, passes the gate, and ends with the lock after the COMMIT', async () => {
    const { dataSource, locks } = await start({ fence: {}, transactionTimeouts: true });
    const runner = dataSource.createQueryRunner();
    await locks.withLock(stock.key, async ({ fencingToken }) => {
      await runner.startTransaction();
      const [row] = (await runner.query(
        `SELECT token, current_setting('statement_timeout') AS "statementMs"
         FROM lock_fence WHERE lock_key = $1`,
        [stock.key],
      )) as { token: string; statementMs: string }[];
      expect(Number(row?.token)).toBe(fencingToken);
      expect(row?.statementMs).not.toBe('0');
      await stock.takeOne(runner);
    });
    expect([await held(), await stock.quantity()]).toEqual([true, 100]);
    await runner.commitTransaction();
    expect([await held(), await stock.quantity()]).toEqual([false, 99]);
    await runner.release();
  });

  it('keeps the lock until its ROLLBACK, and can begin again', async () => {
    const { dataSource, locks } = await start();
    const runner = dataSource.createQueryRunner();
    await locks.withLock(stock.key, async () => {
      await runner.startTransaction();
      await stock.takeOne(runner);
    });
    expect(await held()).toBe(true);
    await runner.rollbackTransaction();
    expect([await held(), await stock.quantity()]).toEqual([false, 100]);
    await locks.withLock(stock.key, async () => {
      await runner.startTransaction();
      await runner.startTransaction();
      await stock.takeOne(runner);
      await runner.commitTransaction();
      expect(await stock.quantity()).toBe(100);
      await runner.startTransaction();
      await stock.takeOne(runner);
      await runner.rollbackTransaction();
    });
    expect(await held()).toBe(true);
    await runner.commitTransaction();
    await runner.release();
    expect([await held(), await stock.quantity()]).toEqual([false, 99]);
  });

  it('does not commit after the lease was lost', async () => {
    const { dataSource, locks } = await start();
    const runner = dataSource.createQueryRunner();
    await locks.withLock(stock.key, async () => {
      await runner.startTransaction();
      await stock.takeOne(runner);
      await locks.forceRelease(stock.key);
      await sleep(50);
      await expect(runner.commitTransaction()).rejects.toBeInstanceOf(LockLostError);
      await runner.rollbackTransaction();
    });
    await runner.release();
    expect(await stock.quantity()).toBe(100);
  });

  it('does not begin after a newer holder', async () => {
    const { dataSource, locks } = await start({ fence: {} });
    const runner = dataSource.createQueryRunner();
    const sale = locks.withLock(stock.key, async ({ fencingToken }) => {
      await giveAway(redis.url, stock.key);
      await stock.raiseFence(fencingToken + 10_000_000);
      await runner.startTransaction();
    });
    await expect(sale).rejects.toBeInstanceOf(LockFencedError);
    expect(runner.isTransactionActive).toBe(false);
    await runner.release();
  });

  it.each(['REPEATABLE READ', 'SERIALIZABLE'] as const)(
    'restarts at %s if another claim came in between',
    async (isolation) => {
      const { dataSource, locks } = await start({ fence: {} });
      const runner = dataSource.createQueryRunner();
      const rival = (await openDataSource('postgres', postgres.settings)).createQueryRunner();
      await stock.raiseFence(1);
      await rival.startTransaction();
      await rival.query('UPDATE lock_fence SET token = 2 WHERE lock_key = $1', [stock.key]);
      await locks.withLock(stock.key, async () => {
        const starting = runner.startTransaction(isolation);
        await sleep(200);
        await rival.commitTransaction();
        await starting;
        await stock.takeOne(runner);
        await runner.commitTransaction();
      });
      await Promise.all([runner.release(), rival.release()]);
      expect(await stock.quantity()).toBe(99);
    },
  );

  it('releases lock and rows if it is released without a COMMIT', async () => {
    const { dataSource, locks } = await start({ fence: {}, poolSize: 1 });
    const runner = dataSource.createQueryRunner();
    await locks.withLock(stock.key, async () => {
      await runner.startTransaction();
      await stock.takeOne(runner);
      await runner.startTransaction();
      await runner.release();
    });
    expect(await held()).toBe(false);
    // The pool hands out the same connection again.
    await dataSource.transaction((manager) => manager.query('SELECT 1'));
    expect(await stock.quantity()).toBe(100);
    await locks.withLock(stock.key, () =>
      dataSource.transaction((manager) => stock.takeOne(manager)),
    );
    expect(await stock.quantity()).toBe(99);
  });

  it('releases the lock if the connection died before the COMMIT', async () => {
    const { dataSource, locks } = await start();
    const runner = dataSource.createQueryRunner();
    await locks.withLock(stock.key, async () => {
      await runner.startTransaction();
      await stock.takeOne(runner);
    });
    expect(await held()).toBe(true);
    await runner.query('SELECT pg_terminate_backend(pg_backend_pid())').catch(() => {});
    await eventually(async () => expect(await held()).toBe(false));
    await runner.rollbackTransaction().catch(() => {});
    await runner.release();
    expect([await held(), await stock.quantity()]).toEqual([false, 100]);
  });

  it.each([
    ['its answer is lost', async () => killCommits(postgres)],
    ['nobody waits for its answer', async () => {}],
  ])('keeps the key if a COMMIT was sent and %s', async (_, interrupt) => {
    const { dataSource, locks } = await start();
    const options: LockOptions = { leaseMs: 2_000, waitMs: 6_000 };
    const runner = dataSource.createQueryRunner();
    const startedAt = performance.now();
    let commit: Promise<unknown> | undefined;
    await locks.withLock(stock.key, options, async () => {
      await runner.startTransaction();
      await stock.takeOne(runner);
      await runner.query('INSERT INTO slow VALUES (1)');
      commit = runner.commitTransaction().catch(() => {});
      await sleep(200);
      await interrupt();
      await Promise.race([commit, sleep(100)]);
      await runner.release();
    });
    expect(await held()).toBe(true);
    const next = locks.withLock(stock.key, options, async () => performance.now() - startedAt);
    expect(await next).toBeGreaterThan(1_800);
    await commit;
  });

  it('is not known to code inside it: its locks are ordinary ones', async () => {
    const { dataSource, locks } = await start();
    const runner = dataSource.createQueryRunner();
    await runner.startTransaction();
    await locks.withLock(stock.key, () => stock.takeOne(runner));
    expect(await held()).toBe(false);
    await runner.rollbackTransaction();
    await runner.release();
  });
});

describe('lockAwareDataSource', () => {
  it('accepts a data source', () => {
    expect(() => lockAwareDataSource({} as never)).toThrow(
      'DataSource, and not an object; pass new',
    );
    expect(() => lockAwareDataSource(undefined as never)).toThrow(LockConfigError);
  });

  it.each<[unknown, string]>([
    [null, 'Invalid options: null must be an object'],
    [{ conectionName: 'a' }, "Unknown option 'conectionName': did you mean 'connectionName'?"],
    [{ connectionName: '' }, "Invalid option connectionName: '' must be a string of 1 to 200"],
    [{ runInTransaction: true }, 'Invalid option runInTransaction: true must be a function'],
  ])('refuses %j as options, and does not change the data source', (options, message) => {
    const dataSource = new DataSource({ type: 'postgres' });
    const before = Object.getOwnPropertyNames(dataSource);
    const call = (): unknown => lockAwareDataSource(dataSource, options as never);
    expect(call).toThrow(LockConfigError);
    expect(call).toThrow(message);
    expect(Object.getOwnPropertyNames(dataSource)).toEqual(before);
  });

  it.each(['sqljs', 'expo'] as const)('refuses the driver %s with its one query runner', (type) => {
    const dataSource = new DataSource({
      type,
      database: 'stock',
      driver: { openDatabaseAsync() {} },
    } as never);
    expect(dataSource.createQueryRunner()).toBe(dataSource.createQueryRunner());
    expect(() => lockAwareDataSource(dataSource)).toThrow(LockConfigError);
  });

  it('may not be called twice with different names', async () => {
    const { dataSource } = await start();
    const again = (connectionName: string) => () =>
      lockAwareDataSource(dataSource, { connectionName });
    expect(again('orders')).toThrow(LockConfigError);
    expect(again('orders')).toThrow(
      "given the name 'orders' for a data source that it knows as 'default'",
    );
    expect(again('default')()).toBe(dataSource);
  });

  it('may not be given runInTransaction by a later call alone', async () => {
    const runInTransaction = (work: () => Promise<unknown>): Promise<unknown> => work();
    const plain = new DataSource({ type: 'postgres' });
    lockAwareDataSource(plain);
    const later = (): unknown => lockAwareDataSource(plain, { runInTransaction });
    expect(later).toThrow(LockConfigError);
    expect(later).toThrow('given runInTransaction for a data source that it knows without it');

    const decided = lockAwareDataSource(new DataSource({ type: 'postgres' }), { runInTransaction });
    expect(lockAwareDataSource(decided, { runInTransaction })).toBe(decided);
    // If connecting is retried, each attempt passes a new function.
    expect(lockAwareDataSource(decided, { runInTransaction: (work) => work() })).toBe(decided);
  });

  it('may be called twice', async () => {
    const { dataSource, locks } = await start({ fence: {}, insideTransaction: 'restart' });
    expect(lockAwareDataSource(lockAwareDataSource(dataSource))).toBe(dataSource);
    const other = uniqueKey();
    let runs = 0;
    await dataSource.transaction('REPEATABLE READ', async (manager) => {
      runs++;
      await locks.withLock([other, stock.key], () => stock.takeOne(manager));
    });
    expect([runs, await stock.quantity()]).toEqual([2, 99]);
  });
});
