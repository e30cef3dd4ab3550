import { beforeAll, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import {
  ClsPluginTransactional,
  Propagation,
  Transactional,
  TransactionHost,
} from '@nestjs-cls/transactional';
import { ClsModule } from 'nestjs-cls';
import {
  LockConfigError,
  Locked,
  LockFencedError,
  LockInTransactionError,
  LockLostError,
  LockNotAcquiredError,
  type LockOptions,
  LockService,
  RedisLockModule,
} from 'nestjs-locked';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import type { DataSource, EntityManager } from 'typeorm';
import { setTimeout as sleep } from 'node:timers/promises';
import { usePostgres } from '../support/databases.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { startNest } from '../support/nest-app.js';
import { openAdmin } from '../support/open-locks.js';
import { useRedis } from '../support/shared-redis.js';
import { spyOnWarnings } from '../support/spy-on-warnings.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { uniqueKey } from '../support/unique-key.js';
import { type ClsApp, type ClsAppOptions, type Host, startClsApp } from './cls-app.js';
import { openDataSource } from './data-source.js';
import { isHeld as isHeldIn } from './locks.js';
import {
  createSlowCommitTable,
  killCommits,
  whenCommitting,
  whenRolledBack,
} from './slow-commit.js';
import { useStock } from './stock.js';

const redis = useRedis();
const postgres = usePostgres();
beforeAll(() => createSlowCommitTable(postgres));

const stock = useStock(postgres);

const start = (options: Partial<ClsAppOptions> = {}): Promise<ClsApp> =>
  startClsApp({ redisUrl: redis.url, type: 'postgres', settings: postgres.settings, ...options });

const takeOne = ({ host }: { host: Host }, pauseMs?: number): Promise<void> =>
  stock.takeOne(host.tx, pauseMs);
const isHeld = (key: string): Promise<boolean> => isHeldIn(redis.url, key);

describe('a lock around the transaction', () => {
  it('is held until COMMIT was answered, even if the transaction outlives the work that opened it [R51]', async () => {
    const { host, locks } = await start();
    let transaction: Promise<void> | undefined;
    const [begun, end] = [makeGate(), makeGate()];
    await locks.withLock(stock.key, async () => {
      transaction = host.withTransaction(async () => {
        begun.open();
        await end.opened;
        await takeOne({ host });
        await host.tx.query('INSERT INTO slow VALUES (1)');
      });
      await begun.opened;
    });
    expect(await isHeld(stock.key)).toBe(true);
    expect(await stock.quantity()).toBe(100);
    end.open();
    await whenCommitting(postgres);
    expect(await isHeld(stock.key)).toBe(true);
    await transaction;
    expect(await stock.quantity()).toBe(99);
    await eventually(async () => expect(await isHeld(stock.key)).toBe(false));
  });

  it('is held until ROLLBACK was answered, even if the transaction outlives the work that opened it [R51]', async () => {
    const proxy = await TcpProxy.start(postgres.settings.port);
    const port = Number(new URL(proxy.url).port);
    const { host, locks } = await start({
      settings: { ...postgres.settings, host: '127.0.0.1', port },
    });
    const [begun, end] = [makeGate(), makeGate()];
    let failure: Promise<unknown> | undefined;
    await locks.withLock(stock.key, async () => {
      const transaction = host.withTransaction(async () => {
        begun.open();
        await end.opened;
        await takeOne({ host });
        proxy.delayAnswers(2_000);
        throw new Error('no stock');
      });
      failure = transaction.catch((error: unknown) => error);
      await begun.opened;
    });
    expect(await isHeld(stock.key)).toBe(true);
    end.open();
    await whenRolledBack(postgres);
    expect(await isHeld(stock.key)).toBe(true);
    expect(await failure).toMatchObject({ message: 'no stock' });
    expect(await stock.quantity()).toBe(100);
    await eventually(async () => expect(await isHeld(stock.key)).toBe(false));
  });

  it.each(['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'] as const)(
    'loses no update at %s',
    async (isolationLevel) => {
      const { host, locks } = await start({ fence: {} });
      await Promise.all(
        Array.from({ length: 20 }, () =>
          locks.withLock(stock.key, () =>
            host.withTransaction({ isolationLevel }, () => takeOne({ host })),
          ),
        ),
      );
      expect(await stock.quantity()).toBe(80);
    },
  );

  it('prevents the commit after the lease was lost [R51]', async () => {
    const { host, locks } = await start();
    const key = stock.key;
    const sale = locks.withLock(key, () =>
      host.withTransaction(async () => {
        await takeOne({ host });
        await locks.forceRelease(key);
        await sleep(50);
      }),
    );
    await expect(sale).rejects.toBeInstanceOf(LockLostError);
    expect(await stock.quantity()).toBe(100);
  });

  it('renews a lease that is about to end', async () => {
    const { host, locks } = await start();
    const leaseMs = 4_000;
    await locks.withLock(stock.key, { leaseMs, renew: false }, async (lock) => {
      await host.withTransaction(async () => {
        await takeOne({ host });
        while (lock.remainingMs() >= leaseMs / 10) await sleep(5);
      });
      expect(lock.remainingMs()).toBeGreaterThan(leaseMs / 10);
    });
    expect(await stock.quantity()).toBe(99);
  });

  it('turns a swallowed SQL error into an error, not into a false commit', async () => {
    const { host, locks } = await start();
    const sale = locks.withLock(stock.key, () =>
      host.withTransaction(async () => {
        await takeOne({ host });
        await host.tx.query('SELECT * FROM nowhere').catch(() => {});
        return 'sold';
      }),
    );
    await expect(sale).rejects.toThrow(/current transaction is aborted/);
    expect(await stock.quantity()).toBe(100);
  });
});

describe('a lock requested inside a transaction', () => {
  @Injectable()
  class Stock {
    constructor(readonly host: TransactionHost) {}

    @Locked('stock:<id>')
    async take(id: string): Promise<void> {
      expect(id).toBe(stock.product);
      await takeOne({ host: this.host });
    }

    @Transactional()
    @Locked('stock:<id>')
    async takeInWrongOrder(id: string): Promise<void> {
      expect(id).toBe(stock.product);
      await takeOne({ host: this.host });
    }

    @Locked('stock:<id>')
    @Transactional()
    async takeInRightOrder(id: string): Promise<void> {
      expect(id).toBe(stock.product);
      await takeOne({ host: this.host });
    }
  }

  @Injectable()
  class Orders {
    constructor(readonly stock: Stock) {}

    @Transactional()
    async place(id: string): Promise<void> {
      await this.stock.take(id);
    }
  }

  const providers = [Stock, Orders];

  it('is refused on the first call, before any Redis command, with the remedies', async () => {
    const app = await start({ providers });
    const failure = await app
      .get(Orders)
      .place(stock.product)
      .catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(LockInTransactionError);
    expect((failure as Error).message).toMatch(
      /^Stock\.take: lock 'stock:.*' was requested inside an open database transaction \(started \d+ ms ago\)/,
    );
    expect((failure as Error).message).toMatch(/@Locked above @Transactional.*'restart'/);
    expect(await isHeld(stock.key)).toBe(false);
    await expect(app.get(Stock).takeInWrongOrder(stock.product)).rejects.toBeInstanceOf(
      LockInTransactionError,
    );
    await app.get(Stock).takeInRightOrder(stock.product);
    expect(await stock.quantity()).toBe(99);
  });

  it.each([
    ['withLock', (locks: LockService, key: string) => locks.withLock(key, async () => {})],
    ['acquire', (locks: LockService, key: string) => locks.acquire(key)],
    ['tryAcquire', (locks: LockService, key: string) => locks.tryAcquire(key)],
  ])('is refused by %s', async (_, ask) => {
    const { host, locks } = await start();
    await expect(
      host.withTransaction(async () => void (await ask(locks, stock.key))),
    ).rejects.toBeInstanceOf(LockInTransactionError);
  });

  it.each(['READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE'] as const)(
    'restarts the transaction at %s, and loses no update',
    async (isolationLevel) => {
      const { host, locks } = await start({ insideTransaction: 'restart', fence: {} });
      let runs = 0;
      await Promise.all(
        Array.from({ length: 20 }, () =>
          host.withTransaction({ isolationLevel }, async () => {
            runs++;
            await host.tx.query('SELECT count(*) FROM stock');
            await locks.withLock(stock.key, () => takeOne({ host }));
          }),
        ),
      );
      expect(await stock.quantity()).toBe(80);
      expect(runs).toBeGreaterThan(20);
      expect(runs).toBeLessThanOrEqual(40);
    },
  );

  it('keeps the lock that it took without waiting until COMMIT', async () => {
    const { host, locks } = await start({ insideTransaction: 'restart' });
    await host.withTransaction({ isolationLevel: 'READ COMMITTED' }, async () => {
      await locks.withLock(stock.key, () => takeOne({ host }));
      expect(await isHeld(stock.key)).toBe(true);
      await locks.withLock(stock.key, () => takeOne({ host }));
    });
    expect(await stock.quantity()).toBe(98);
    expect(await isHeld(stock.key)).toBe(false);
  });

  it('allows no transaction for work that still continues in an abandoned run', async () => {
    const { host, locks } = await start({ insideTransaction: 'restart' });
    const ended = makeGate();
    const found: Promise<boolean>[] = [];
    await host.withTransaction({ isolationLevel: 'REPEATABLE READ' }, async () => {
      found.push(ended.opened.then(() => host.isTransactionActive()));
      await locks.withLock(stock.key, () => takeOne({ host }));
    });
    ended.open();
    expect(await Promise.all(found)).toEqual([false, false]);
  });

  it('restarts although the body swallowed the error that was meant to end it [R54]', async () => {
    const { host, locks } = await start({ insideTransaction: 'restart' });
    let runs = 0;
    await host.withTransaction({ isolationLevel: 'REPEATABLE READ' }, async () => {
      runs++;
      await locks.withLock(stock.key, () => takeOne({ host })).catch(() => {});
    });
    expect({ runs, quantity: await stock.quantity() }).toEqual({ runs: 2, quantity: 99 });
  });

  it('takes keys in the same order everywhere: two that ask in opposite orders both get theirs [R54]', async () => {
    const { host, locks } = await start({ insideTransaction: 'restart' });
    const [a, b] = [uniqueKey('a'), uniqueKey('b')];
    const both = (first: string, second: string): Promise<void> =>
      host.withTransaction({ isolationLevel: 'READ COMMITTED' }, async () => {
        await locks.withLock(first, () => sleep(50));
        await locks.withLock(second, () => takeOne({ host }));
      });
    const startedAt = performance.now();
    await Promise.all([both(a, b), both(b, a), both(a, b), both(b, a)]);
    expect(await stock.quantity()).toBe(96);
    expect(performance.now() - startedAt).toBeLessThan(5_000);
  });

  it('answers a busy key where it was requested, if the call handles that', async () => {
    const { host, locks } = await start({ insideTransaction: 'restart' });
    await using other = await locks.acquire(stock.key);
    void other;
    const skipped = await host.withTransaction({ isolationLevel: 'REPEATABLE READ' }, () =>
      locks.withLock(stock.key, { onBusy: 'skip', waitMs: 50 }, async () => 'sold'),
    );
    expect(skipped).toBeUndefined();
    const tried = await host.withTransaction(() => locks.tryAcquire(stock.key));
    expect(tried).toBeNull();
  });

  it("waits inside under join, for half of the transaction's remaining time, and not on an old snapshot", async () => {
    const { host, locks } = await start({ insideTransaction: 'join' });
    const key = stock.key;
    await Promise.all(
      Array.from({ length: 4 }, () =>
        host.withTransaction({ isolationLevel: 'READ COMMITTED' }, () =>
          locks.withLock(key, () => takeOne({ host })),
        ),
      ),
    );
    expect(await stock.quantity()).toBe(96);
    await expect(
      host.withTransaction({ isolationLevel: 'REPEATABLE READ' }, () =>
        locks.withLock(key, async () => {}),
      ),
    ).rejects.toThrow(/snapshot of its first read/);
    await using other = await locks.acquire(key);
    void other;
    const timeout = { timeout: 600 } as never; // an option of other adapters
    const startedAt = performance.now();
    await expect(
      host.withTransaction(timeout, () => locks.withLock(key, async () => {})),
    ).rejects.toMatchObject({ code: 'LOCK_NOT_ACQUIRED' });
    expect(performance.now() - startedAt).toBeLessThan(5_000); // the default wait is twice as long
  });

  it('waits inside under join for half of the time that Prisma gives a transaction, unless a time is given [D76]', async () => {
    /** The part of a Prisma client that limits the duration of its transactions. */
    const prismaLike = (dataSource: DataSource, transactionOptions: object): object => ({
      $transaction: (body: (tx: unknown) => Promise<unknown>) => dataSource.transaction(body),
      _engineConfig: { transactionOptions },
    });
    const dataSource = await openDataSource('postgres', postgres.settings);
    const waited = async (transactionOptions: object): Promise<number> => {
      const connection = prismaLike(dataSource, transactionOptions) as {
        $transaction: (body: (tx: EntityManager) => Promise<unknown>) => Promise<unknown>;
      };
      const adapter = lockAwareAdapter({
        connection,
        optionsFactory: ({ $transaction }: typeof connection) => ({
          wrapWithTransaction: (
            _: object,
            body: () => Promise<unknown>,
            setTx: (tx: object) => void,
          ) =>
            $transaction((tx) => {
              setTx(tx);
              return body();
            }),
          getFallbackInstance: () => dataSource.manager,
        }),
      });
      const app = await startNest({
        imports: [
          ClsModule.forRoot({
            plugins: [new ClsPluginTransactional({ adapter: adapter as never })],
          }),
          RedisLockModule.forRoot({ connection: redis.url, insideTransaction: 'join' }),
        ],
      });
      const host = app.get<TransactionHost>(TransactionHost);
      const locks = app.get(LockService);
      await using other = await locks.acquire(stock.key);
      void other;
      const startedAt = performance.now();
      const waiting = host.withTransaction(() => locks.withLock(stock.key, async () => {}));
      await expect(waiting).rejects.toBeInstanceOf(LockNotAcquiredError);
      return performance.now() - startedAt;
    };
    const byDefault = await waited({});
    expect(byDefault).toBeGreaterThan(2_000);
    expect(byDefault).toBeLessThan(4_500);
    expect(await waited({ timeout: 400 })).toBeLessThan(2_000);
  });

  it('joins the locks of the suspended transaction under NOT_SUPPORTED [D77]', async () => {
    const { host, locks } = await start({ insideTransaction: 'join' });
    const order: string[] = [];
    await host.withTransaction({ isolationLevel: 'READ COMMITTED' }, async () => {
      await locks.withLock(stock.key, async () => void order.push('kept'));
      await host.withTransaction(Propagation.NotSupported, () =>
        locks.withLock(stock.key, { waitMs: 300 }, async () => void order.push('joined')),
      );
      expect(await isHeld(stock.key)).toBe(true);
    });
    expect([order, await isHeld(stock.key)]).toEqual([['kept', 'joined'], false]);
  });

  it('is an ordinary lock under NOT_SUPPORTED, and after the transaction', async () => {
    const { host, locks } = await start();
    const key = stock.key;
    let late: Promise<string> | undefined;
    await host.withTransaction(async () => {
      await host.withTransaction(Propagation.NotSupported, () =>
        locks.withLock(key, async () => expect(await isHeld(key)).toBe(true)),
      );
      expect(await isHeld(key)).toBe(false);
      late = sleep(300).then(() => locks.withLock(key, async () => 'entered'));
    });
    expect(await late).toBe('entered');
  });

  it('stays until the outermost transaction has ended, whatever happens to a savepoint', async () => {
    const { host, locks } = await start({ insideTransaction: 'restart' });
    const key = stock.key;
    await host.withTransaction({ isolationLevel: 'READ COMMITTED' }, async () => {
      const savepoint = host.withTransaction(Propagation.Nested, async () => {
        await locks.withLock(key, () => takeOne({ host }));
        throw new Error('back to the savepoint');
      });
      await expect(savepoint).rejects.toThrow('back to the savepoint');
      expect(await isHeld(key)).toBe(true);
    });
    expect(await isHeld(key)).toBe(false);
    expect(await stock.quantity()).toBe(100);
  });

  it('joins the hold of a lock around the transaction', async () => {
    const { host, locks } = await start();
    const key = stock.key;
    await locks.withLock(key, () =>
      host.withTransaction(() => locks.withLock(key, () => takeOne({ host }))),
    );
    expect(await stock.quantity()).toBe(99);
  });
});

describe('the fence', () => {
  it('is claimed before the body runs', async () => {
    const { host, locks } = await start({ fence: {} });
    const key = stock.key;
    await locks.withLock(key, async (lock) => {
      await host.withTransaction(async () => {});
      expect(await stock.fence()).toBe(lock.fencingToken);
    });
  });

  it('refuses a holder after a newer one, before the body runs [R55]', async () => {
    const { host, locks } = await start({ fence: {} });
    const key = stock.key;
    let ran = false;
    const sale = locks.withLock(key, async (lock) => {
      await openAdmin(redis.url).set(`lock:{${key}}`, 'somebody else', 'PX', 5_000);
      await postgres.query('INSERT INTO lock_fence VALUES ($1, $2)', [
        key,
        lock.fencingToken + 10_000_000,
      ]);
      await host.withTransaction(async () => void (ran = true));
    });
    await expect(sale).rejects.toBeInstanceOf(LockFencedError);
    expect(ran).toBe(false);
  });

  it('continues from the number in the database if Redis has lost its own [R55]', async () => {
    const { host, locks } = await start({ fence: {} });
    const key = stock.key;
    const ahead = Date.now() * 1_000 + 3_600_000_000;
    await postgres.query('INSERT INTO lock_fence VALUES ($1, $2)', [key, ahead]);
    await locks.withLock(key, async (lock) => {
      await host.withTransaction(() => takeOne({ host }));
      expect(lock.fencingToken).toBeGreaterThan(ahead);
    });
    expect(await stock.quantity()).toBe(99);
    await locks.withLock(key, async (lock) => expect(lock.fencingToken).toBeGreaterThan(ahead));
  });

  it('refuses a second transaction on the same key inside the first: it would wait for itself [R56]', async () => {
    const { host, locks } = await start({ fence: {} });
    const sale = locks.withLock(stock.key, () =>
      host.withTransaction(() => host.withTransaction(Propagation.RequiresNew, async () => {})),
    );
    await expect(sale).rejects.toThrow(/each would wait for the other/);
    const { host: unfenced, locks: locks2 } = await start();
    await locks2.withLock(stock.key, () =>
      unfenced.withTransaction(() =>
        unfenced.withTransaction(Propagation.RequiresNew, () => takeOne({ host: unfenced })),
      ),
    );
    expect(await stock.quantity()).toBe(99);
  });

  it.each(['READ COMMITTED', 'REPEATABLE READ'] as const)(
    'waits for the transaction of an earlier holder at %s, and reads its writes',
    async (isolationLevel) => {
      const { host, locks, dataSource } = await start({ fence: {} });
      const key = stock.key;
      const earlier = dataSource.createQueryRunner();
      await earlier.startTransaction();
      await earlier.query('INSERT INTO lock_fence VALUES ($1, 1)', [key]);
      await earlier.query('UPDATE stock SET quantity = 50 WHERE id = $1', [stock.product]);
      const sale = locks.withLock(key, () =>
        host.withTransaction({ isolationLevel }, () => takeOne({ host })),
      );
      await sleep(200);
      await earlier.commitTransaction();
      await earlier.release();
      await sale;
      expect(await stock.quantity()).toBe(49);
    },
  );

  it('is also claimed for transactions opened on the data source itself, without another call', async () => {
    const { host, locks, dataSource } = await start({ fence: true });
    await locks.withLock(stock.key, async ({ fencingToken }) => {
      await dataSource.transaction((manager) => stock.takeOne(manager));
      expect(await stock.fence()).toBe(fencingToken);
      await host.withTransaction(() => takeOne({ host }));
      const beside = host.withTransaction(() => dataSource.transaction(async () => {}));
      await expect(beside).rejects.toThrow(/^A second transaction under lock/);
    });
    const asking = dataSource.transaction(() => locks.withLock(stock.key, async () => {}));
    await expect(asking).rejects.toBeInstanceOf(LockInTransactionError);
    expect(await stock.quantity()).toBe(98);
  });

  it('is reported as missing when the transaction host sends a write outside of a transaction, not a read', async () => {
    const { host, locks } = await start({ fence: true });
    const warnings = spyOnWarnings();
    await locks.withLock(stock.key, () => host.tx.query('SELECT 1'));
    expect(warnings()).toEqual([]);
    await locks.withLock(stock.key, () => takeOne({ host }));
    expect(warnings()).toEqual([
      expect.stringMatching(/^A statement under lock '.*' is sent outside a transaction/),
    ]);
  });

  it('says what to do when its table is missing', async () => {
    const { host, locks } = await start({ fence: { table: 'nowhere' } });
    const sale = locks.withLock(stock.key, () => host.withTransaction(async () => {}));
    await expect(sale).rejects.toMatchObject({
      code: 'LOCK_CONFIG_INVALID',
      message: expect.stringMatching(
        /^The fence table 'nowhere' does not exist .*nestjs-locked\/sql/,
      ),
    });
  });

  it('uses the name of the data source if the adapter was given none', async () => {
    const dataSource = await openDataSource('postgres', postgres.settings);
    lockAwareDataSource(dataSource, { connectionName: 'stock' });
    const { host, locks } = await start({ dataSource, fence: { connections: ['stock'] } });
    await locks.withLock(stock.key, async (lock) => {
      await host.withTransaction(() => takeOne({ host }));
      expect(await stock.fence()).toBe(lock.fencingToken);
      // This transaction has claimed the key: another claim would wait for it in the database.
      const nested = host.withTransaction(() => dataSource.transaction(async () => {}));
      await expect(nested).rejects.toBeInstanceOf(LockInTransactionError);
    });
  });

  it('is not used where the database of a connection has no table', async () => {
    const other = await openDataSource('postgres', postgres.settings);
    lockAwareDataSource(other, { connectionName: 'other' });
    const { host, locks } = await start({ fence: { table: 'nowhere', connections: ['other'] } });
    await locks.withLock(stock.key, () => host.withTransaction(() => takeOne({ host })));
    expect(await stock.quantity()).toBe(99);
  });
});

describe('time-outs in the database', () => {
  const settings = async ({ host }: { host: Host }): Promise<Record<string, number>> => {
    const rows = await host.tx.query<{ name: string; setting: string }[]>(
      `SELECT name, setting FROM pg_settings WHERE name IN ('idle_in_transaction_session_timeout',
       'statement_timeout', 'lock_timeout', 'transaction_timeout')`,
    );
    return Object.fromEntries(rows.map(({ name, setting }) => [name, Number(setting)]));
  };

  it('fit into the lease, and end with the transaction [R53]', async () => {
    const { host, locks, dataSource } = await start({ transactionTimeouts: true, poolSize: 1 });
    await locks.withLock(stock.key, async (lock) => {
      await host.withTransaction(async () => {
        const set = await settings({ host });
        const worst =
          (set['idle_in_transaction_session_timeout'] as number) +
          (set['statement_timeout'] as number);
        expect(worst).toBeGreaterThan(15_000);
        expect(worst).toBeLessThan(20_000);
        expect(set['lock_timeout']).toBe(set['statement_timeout']);
        expect(set['transaction_timeout']).toBeGreaterThan(500_000);
      });
      expect(lock.isHeld).toBe(true);
    });
    const [after] = await dataSource.query<{ idle: string }[]>(
      `SELECT current_setting('idle_in_transaction_session_timeout') AS idle`,
    );
    expect(after?.idle).toBe('0');
  });

  it('are off without a fence, unless requested, and can be set', async () => {
    const off = await start();
    await off.locks.withLock(stock.key, () =>
      off.host.withTransaction(async () =>
        expect(await settings(off)).toMatchObject({ statement_timeout: 0 }),
      ),
    );
    const given = await start({
      fence: {},
      transactionTimeouts: { statementMs: 0, idleMs: 77_000 },
    });
    await given.locks.withLock(stock.key, () =>
      given.host.withTransaction(async () =>
        expect(await settings(given)).toMatchObject({
          statement_timeout: 0,
          idle_in_transaction_session_timeout: 77_000,
        }),
      ),
    );
  });
});

describe('a COMMIT that was not answered', () => {
  it('keeps the key until its lease has run out, which is neither renewed nor passed on [R52]', async () => {
    const { host, locks } = await start();
    const key = stock.key;
    const options: LockOptions = { leaseMs: 1_500, waitMs: 6_000 };
    const startedAt = performance.now();
    const sale = locks.withLock(key, options, () =>
      host.withTransaction(async () => {
        await takeOne({ host });
        await host.tx.query('INSERT INTO slow VALUES (1)');
      }),
    );
    await sleep(300);
    const next = locks.withLock(key, options, async () => performance.now() - startedAt);
    await Promise.all([expect(sale).rejects.toThrow(), killCommits(postgres)]);
    const toldAfterMs = performance.now() - startedAt;
    expect(await isHeld(key)).toBe(true);
    expect(await next).toBeGreaterThan(Math.max(toldAfterMs, 1_400));
  });

  it('is not in doubt if the database refused it [R52]', async () => {
    await postgres.query('CREATE TABLE strict (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)');
    const { host, locks } = await start();
    const key = stock.key;
    const sale = locks.withLock(key, () =>
      host.withTransaction(async () => {
        await host.tx.query('INSERT INTO strict VALUES (1), (1)');
      }),
    );
    await expect(sale).rejects.toThrow(/duplicate key/);
    expect(await isHeld(key)).toBe(false);
  });
});

describe('the options of lockAwareAdapter', () => {
  it.each<[unknown, string]>([
    [null, 'Invalid options: null must be an object'],
    [{ conectionName: 'a' }, "Unknown option 'conectionName': did you mean 'connectionName'?"],
    [{ connectionName: 5 }, 'Invalid option connectionName: 5 must be a string'],
    [{ query: 'SELECT' }, "Invalid option query: 'SELECT' must be a function"],
    [{ pool: true }, 'Invalid option pool: true must be a pool of node-postgres, or false'],
    [{ survivesDisconnect: 0 }, 'Invalid option survivesDisconnect: 0 must be true or false'],
  ])('are refused, and the adapter is unchanged: %j', (options, message) => {
    const optionsFactory = (): never => {
      throw new Error('not called');
    };
    const adapter = { optionsFactory };
    const call = (): unknown => lockAwareAdapter(adapter, options as never);
    expect(call).toThrow(LockConfigError);
    expect(call).toThrow(message);
    expect(adapter.optionsFactory).toBe(optionsFactory);
  });
});
