import { beforeEach, describe, expect, it } from '@jest/globals';
import {
  type CallHandler,
  Controller,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
  Post,
  UseInterceptors,
} from '@nestjs/common';
import { MessagePattern } from '@nestjs/microservices';
import {
  InjectLockService,
  KeyParam,
  LockConfigError,
  Locked,
  type LockError,
  LockInterceptor,
  LockService,
  RedisLockModule,
} from 'nestjs-locked';
import { fenceTableSql, pruneFenceTable } from 'nestjs-locked/transactions';
import { lockAwareDataSource } from 'nestjs-locked/typeorm';
import {
  defer,
  firstValueFrom,
  from,
  lastValueFrom,
  type Observable,
  of,
  switchMap,
  take,
} from 'rxjs';
import type { DataSource, EntityManager } from 'typeorm';
import { AsyncResource } from 'node:async_hooks';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  areFirst,
  drawAgain,
  drawTickets,
  inContextOf,
  returnTickets,
} from '../../libs/nestjs-locked/src/transactions/scope/claim-tickets.js';
import type { GuardingHold } from '../../libs/nestjs-locked/src/transactions/scope/guarding-hold.js';
import { afterTest } from '../support/after-test.js';
import { type TestDatabase, useMariaDb, useMySql, usePostgres } from '../support/databases.js';
import { describeWithMariaDb, describeWithMySql } from '../support/describe-if.js';
import { makeGate } from '../support/gate.js';
import { LockObserver } from '../support/lock-observer.js';
import { startHttp, startNest } from '../support/nest-app.js';
import { openAdmin } from '../support/open-locks.js';
import { useRedis } from '../support/shared-redis.js';
import { spyOnWarnings } from '../support/spy-on-warnings.js';
import { connectTcp } from '../support/tcp-client.js';
import { uniqueKey } from '../support/unique-key.js';
import { openDataSource } from './data-source.js';
import { startLocks } from './locks.js';
import { useStock } from './stock.js';

describe('the order of claims', () => {
  /** Longer than a test may take. */
  const LEASE_MS = 300_000;

  const holdOf = (key: string): GuardingHold =>
    ({
      hold: { key, callWaitMs: 0, options: { leaseMs: LEASE_MS } },
      locks: { orderedBy: '' },
    }) as unknown as GuardingHold;

  const CONNECTED = { isConnected: true };

  /** Whether `work` settles without waiting for anything else. */
  async function isSettled(work: Promise<unknown>): Promise<boolean> {
    let settled = false;
    const note = (): void => void (settled = true);
    work.then(note, note);
    await new Promise(setImmediate);
    return settled;
  }

  it('a call that was overtaken in one queue gives up the others before it waits', async () => {
    const [a, b] = [holdOf('a'), holdOf('b')];
    const first = await drawTickets([a, b], {});
    const second = await drawTickets([a], CONNECTED);
    expect(areFirst(first)).toBe(false);
    const again = drawAgain(first);

    const ofSecond = inContextOf(second, () => drawTickets([a, b], CONNECTED));
    expect(await isSettled(ofSecond)).toBe(true);
    returnTickets([...second, ...(await ofSecond)]);
    await again;
    expect(areFirst(first)).toBe(true);
    returnTickets(first);
  });

  it('a call that was overtaken waits behind another one that waits', async () => {
    const [a, b] = [holdOf('a'), holdOf('b')];
    const first = await drawTickets([a, b], {});
    const third = await drawTickets([b], CONNECTED);
    const second = await drawTickets([a], CONNECTED);
    const ofSecond = inContextOf(second, () => drawTickets([b], CONNECTED));
    expect(areFirst(first)).toBe(false);
    const again = inContextOf(first, () => drawAgain(first));
    expect(await isSettled(again)).toBe(false);

    returnTickets(third);
    returnTickets([...second, ...(await ofSecond)]);
    await again;
    expect(areFirst(first)).toBe(true);
    returnTickets(first);
  });
});

describe('claims in savepoints', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  type Handle = Awaited<ReturnType<LockService['acquire']>>;

  interface Started {
    readonly dataSource: DataSource;
    /** Acquired in another async context: no transaction is opened in a context that has acquired a lock. */
    readonly lock: Handle;
  }

  async function start(insideTransaction: 'reject' | 'restart' | 'join'): Promise<Started> {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
    const { locks } = await startLocks(redis.url, { fence: true, insideTransaction });
    const elsewhere = new AsyncResource('elsewhere');
    return { dataSource, lock: await elsewhere.runInAsyncScope(() => locks.acquire(stock.key)) };
  }

  /** Runs the work in a nested transaction that is rolled back. */
  async function rolledBack(manager: EntityManager, work: () => Promise<unknown>): Promise<void> {
    const nested = manager.transaction(async () => {
      await work();
      throw new Error('back to the savepoint');
    });
    await expect(nested).rejects.toThrow('back to the savepoint');
  }

  /** The fencing token of its claim, as the transaction sees it. */
  async function claimIn(manager: EntityManager): Promise<number> {
    const rows: { token: string }[] = await manager.query(
      'SELECT token FROM lock_fence WHERE lock_key = $1',
      [stock.key],
    );
    return Number(rows[0]?.token);
  }

  describe('the claim of a lock that was acquired before its transaction', () => {
    it.each(['reject', 'restart', 'join'] as const)(
      'is repeated after a rolled back savepoint has undone it, under %s',
      async (insideTransaction) => {
        const { dataSource, lock } = await start(insideTransaction);
        await dataSource.transaction(async (manager) => {
          await rolledBack(manager, () => lock.run(() => stock.takeOne(manager)));
          await lock.run(async () => {
            expect(await claimIn(manager)).toBe(lock.fencingToken);
            await stock.takeOne(manager);
          });
        });
        expect([await stock.quantity(), await stock.fence()]).toEqual([99, lock.fencingToken]);
        await lock.release();
      },
    );

    it('remains after a savepoint that was not rolled back', async () => {
      const { dataSource, lock } = await start('reject');
      await dataSource.transaction(async (manager) => {
        await manager.transaction((nested) => lock.run(() => stock.takeOne(nested)));
        await rolledBack(manager, () => lock.run(() => stock.takeOne(manager)));
      });
      expect([await stock.quantity(), await stock.fence()]).toEqual([99, lock.fencingToken]);
      await lock.release();
    });

    it('is repeated before COMMIT if its work continues beside the rollback', async () => {
      const { dataSource, lock } = await start('reject');
      const [claimed, undone] = [makeGate(), makeGate()];
      await dataSource.transaction(async (manager) => {
        let sold: Promise<void> | undefined;
        await rolledBack(manager, async () => {
          sold = lock.run(async () => {
            claimed.open();
            await undone.opened;
            await stock.takeOne(manager);
          });
          await claimed.opened;
        });
        undone.open();
        await sold;
      });
      expect([await stock.quantity(), await stock.fence()]).toEqual([99, lock.fencingToken]);
      await lock.release();
    });

    it('is not repeated for a transaction that has claimed before its savepoints', async () => {
      const { dataSource, lock } = await start('reject');
      await dataSource.transaction(async (manager) => {
        const sent: string[] = [];
        await lock.run(() => stock.takeOne(manager));
        dataSource.subscribers.push({ beforeQuery: ({ query }) => void sent.push(query) });
        await rolledBack(manager, () => lock.run(() => stock.takeOne(manager)));
        await lock.run(() => stock.takeOne(manager));
        expect(sent).not.toHaveLength(0);
        expect(sent.filter((query) => query.includes('lock_fence'))).toEqual([]);
      });
      expect([await stock.quantity(), await stock.fence()]).toEqual([98, lock.fencingToken]);
      await lock.release();
    });
  });

  describe('the claim of a lock that was taken inside its transaction', () => {
    it('also covers work under it in a savepoint', async () => {
      const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
      const { locks } = await startLocks(redis.url, { fence: true, insideTransaction: 'join' });
      await dataSource.transaction('READ COMMITTED', async (manager) => {
        const lock = await locks.acquire(stock.key);
        await lock.run(() => stock.takeOne(manager));
        await manager.transaction((nested) => lock.run(() => stock.takeOne(nested)));
        await lock.release();
      });
      expect(await stock.quantity()).toBe(98);
    });
  });
});

describe('pruning the fence table', () => {
  const redis = useRedis();

  const DAY_US = 86_400_000_000;

  /** A fencing token that was issued this many days ago. */
  const daysAgo = (days: number): number => Date.now() * 1_000 - days * DAY_US;

  function pruning(dialect: 'postgres' | 'mysql', useDatabase: () => TestDatabase): void {
    const database = useDatabase();
    let table: string;
    let dataSource: DataSource;

    beforeEach(async () => {
      dataSource = await openDataSource(dialect, database.settings, 1);
      table = uniqueKey('fence').replace('-', '_');
      await database.query(fenceTableSql({ dialect, table }));
    });

    const prune = (more: object = {}): Promise<number> =>
      pruneFenceTable((sql, params) => dataSource.query(sql, params), { dialect, table, ...more });

    const insert = async (rows: readonly (readonly [string, number])[]): Promise<void> => {
      const values = rows.map(([key, token]) => `('${key}', ${token})`).join(', ');
      await database.query(`INSERT INTO ${table} VALUES ${values}`);
    };

    const left = async (): Promise<string[]> => {
      const rows = await database.query<{ lock_key: string | Buffer }>(
        `SELECT lock_key FROM ${table} ORDER BY lock_key`,
      );
      return rows.map(({ lock_key }) => lock_key.toString());
    };

    it('deletes only rows older than a week [D81]', async () => {
      await insert([
        ['a', daysAgo(8)],
        ['b', daysAgo(6)],
        ['c', daysAgo(400)],
        ['d', daysAgo(0)],
      ]);
      expect(await prune()).toBe(2);
      expect(await left()).toEqual(['b', 'd']);
      expect(await prune({ olderThanMs: (5 * DAY_US) / 1_000 })).toBe(1);
      expect(await left()).toEqual(['d']);
    });

    it('goes through tables of any size', async () => {
      const keys = Array.from({ length: 2_500 }, (_, n) => `key-${String(n).padStart(5, '0')}`);
      await insert(keys.map((key, n) => [key, daysAgo(n % 3 === 0 ? 1 : 30)] as const));
      expect(await prune()).toBe(1_666);
      expect(await left()).toEqual(keys.filter((_, n) => n % 3 === 0));
      expect(await prune()).toBe(0);
    });

    it('measures age from the newest token if the clock that issued the tokens is behind', async () => {
      await insert([
        ['used now', daysAgo(1_000)],
        ['used yesterday', daysAgo(1_001)],
        ['used long ago', daysAgo(1_020)],
      ]);
      expect(await prune()).toBe(1);
      expect(await left()).toEqual(['used now', 'used yesterday']);
    });

    it('does nothing to an empty table, and refuses an age that a transaction could have', async () => {
      expect(await prune()).toBe(0);
      await expect(prune({ olderThanMs: 3_600_000 })).rejects.toBeInstanceOf(LockConfigError);
      await expect(prune({ olderThanMs: 0 })).rejects.toThrow(/olderThanMs: 0 must be/);
      await expect(prune({ table: 'a; DROP TABLE b' })).rejects.toThrow(/Invalid option/);
    });

    it('under a lock logs no warning about work without the fence', async () => {
      await insert([
        ['fresh', daysAgo(0)],
        ['old', daysAgo(30)],
      ]);
      lockAwareDataSource(dataSource);
      const { locks } = await startLocks(redis.url, { fence: { table } });
      const warnings = spyOnWarnings();
      expect(await locks.withLock(uniqueKey('nightly'), () => prune())).toBe(1);
      expect(await left()).toEqual(['fresh']);
      expect(warnings()).toEqual([]);
    });

    it('skips a row that is being claimed, and makes nobody wait for it [D81]', async () => {
      await insert([
        ['claimed', daysAgo(30)],
        ['fresh', daysAgo(0)],
        ['old', daysAgo(30)],
      ]);
      const claiming = (await openDataSource(dialect, database.settings)).createQueryRunner();
      await claiming.startTransaction();
      await claiming.query(`UPDATE ${table} SET token = ${daysAgo(0)} WHERE lock_key = 'claimed'`);
      const pruning = prune();
      await (dialect === 'postgres' ? pruning : sleep(500)); // on MySQL, pruning waits for that row
      await claiming.commitTransaction();
      await claiming.release();
      await pruning;
      expect(await left()).toEqual(['claimed', 'fresh']);
    });
  }

  describe('pruneFenceTable on PostgreSQL', () => pruning('postgres', usePostgres));
  describeWithMariaDb('pruneFenceTable on MariaDB', () => pruning('mysql', useMariaDb));
  describeWithMySql('pruneFenceTable on MySQL', () => pruning('mysql', useMySql));
});

describe('a lock inside its transaction', () => {
  const CALLERS = 20;
  const POOL_SIZE = 5;
  const PROBE_EVERY_MS = 20;
  /** An exhausted pool keeps all callers waiting until one of them gives up. */
  const WAIT_MS = 60_000;
  const WORST_WAIT_MS = 20_000;

  /**
   * Requests a connection from the pool at intervals. @returns a function that stops this and returns the longest wait
   */
  function probe(dataSource: DataSource): () => Promise<number> {
    const waits: Promise<number>[] = [];
    const timer = setInterval(() => {
      const askedAt = performance.now();
      waits.push(dataSource.query('SELECT 1').then(() => performance.now() - askedAt));
    }, PROBE_EVERY_MS);
    afterTest(() => clearInterval(timer)); // also if the test fails
    return async () => {
      clearInterval(timer);
      return Math.max(...(await Promise.all(waits)));
    };
  }

  /** Tests callers that open a transaction, then request the lock, and then need a second connection. */
  function wrongNesting(type: 'postgres' | 'mysql', useDatabase: () => TestDatabase): void {
    const redis = useRedis();
    const database = useDatabase();
    const stock = useStock(database, type);

    it.each([
      ['READ COMMITTED', {}],
      ['REPEATABLE READ', {}],
      ['READ COMMITTED', { fence: {} }],
      ['REPEATABLE READ', { fence: {} }],
    ] as const)(
      'at %s, %j: all calls succeed, and the pool stays usable',
      async (isolation, options) => {
        const dataSource = lockAwareDataSource(
          await openDataSource(type, database.settings, POOL_SIZE),
        );
        const { locks } = await startLocks(redis.url, {
          ...{ insideTransaction: 'restart', waitMs: WAIT_MS },
          ...options,
        });
        const endProbe = probe(dataSource);
        const sales = Array.from({ length: CALLERS }, () =>
          dataSource.transaction(isolation, async (manager) => {
            await manager.query('SELECT count(*) FROM stock');
            await locks.withLock(stock.key, async () => {
              await stock.takeOne(manager);
              await dataSource.query('SELECT 1');
              await sleep(20);
            });
          }),
        );
        await Promise.all(sales);
        const worstMs = await endProbe();
        expect(await stock.quantity()).toBe(100 - CALLERS);
        expect(worstMs).toBeLessThan(WORST_WAIT_MS);
      },
    );
  }

  describe('a lock requested inside a transaction, under restart, on PostgreSQL', () =>
    wrongNesting('postgres', usePostgres));

  describeWithMariaDb('a lock requested inside a transaction, under restart, on MariaDB', () =>
    wrongNesting('mysql', useMariaDb),
  );
});

/** Results that are read, partly or fully, inside the transaction that opened the lock or that is restarted for it. */
describe('reading the fence inside a transaction', () => {
  const redis = useRedis();
  const postgres = usePostgres();
  const stock = useStock(postgres);

  const RESTART = { insideTransaction: 'restart' } as const;

  let dataSource: DataSource;
  let manager: EntityManager;
  let runs: number;

  function inTransaction<T>(body: () => Promise<T>): Promise<T> {
    return dataSource.transaction((opened) => {
      runs++;
      manager = opened;
      return body();
    });
  }

  async function takeOne(): Promise<string> {
    await stock.takeOne(manager);
    return 'sold';
  }

  @Injectable()
  class StockService {
    @Locked('stock:<product>', { ...RESTART, returns: 'observable' })
    watched(@KeyParam('product') _product: string): Observable<string> {
      return defer(() => takeOne());
    }

    @Locked('stock:<product>', RESTART)
    async *listed(@KeyParam('product') _product: string): AsyncGenerator<string> {
      yield await takeOne();
    }
  }

  /** Opens a transaction that reads the result of the handler with `read`. */
  function transactionInterceptor(
    read: (result: Observable<unknown>) => Promise<unknown>,
  ): NestInterceptor {
    return {
      intercept: (_context: ExecutionContext, next: CallHandler) =>
        from(inTransaction(() => read(next.handle()))),
    };
  }

  const ofLastValue = transactionInterceptor((result) => lastValueFrom(result));
  const ofFirstValue = transactionInterceptor((result) => firstValueFrom(result));

  @Controller('stock/:product')
  class StockController {
    @Post()
    @UseInterceptors(ofLastValue, LockInterceptor('stock:<params.product>', RESTART))
    async take(): Promise<string> {
      return takeOne();
    }

    @MessagePattern('take first')
    @UseInterceptors(ofFirstValue, LockInterceptor('stock:<data.product>', RESTART))
    async takeFirst(): Promise<string> {
      return takeOne();
    }

    @MessagePattern('take')
    @UseInterceptors(ofLastValue, LockInterceptor('stock:<data.product>', RESTART))
    async takeByMessage(): Promise<string> {
      return takeOne();
    }
  }

  interface Started {
    readonly service: StockService;
    readonly locks: LockService;
    readonly url: string;
    readonly send: (pattern: string) => Promise<unknown>;
  }

  const CALLS: [what: string, call: (started: Started) => Promise<unknown>][] = [
    [
      'a locked method that returns an Observable',
      ({ service }) => inTransaction(() => lastValueFrom(service.watched(stock.product))),
    ],
    [
      'a locked method that yields',
      ({ service }) =>
        inTransaction(async () => {
          for await (const answer of service.listed(stock.product)) return answer;
          return undefined;
        }),
    ],
    [
      'LockInterceptor on a route',
      async ({ url }) => (await fetch(`${url}/stock/${stock.product}`, { method: 'POST' })).text(),
    ],
    ['LockInterceptor on a message handler', ({ send }) => send('take')],
    [
      'LockInterceptor on a handler of which only the first value is read',
      ({ send }) => send('take first'),
    ],
    [
      'an Observable of which only the first value is read',
      ({ service }) => inTransaction(() => firstValueFrom(service.watched(stock.product))),
    ],
    [
      'an Observable that was replaced by another one',
      ({ service }) =>
        inTransaction(() =>
          lastValueFrom(
            of('another', stock.product).pipe(switchMap((product) => service.watched(product))),
          ),
        ),
    ],
    [
      'a locked method that yields, read as a stream',
      ({ service }) =>
        inTransaction(async () => {
          const stream = Readable.from(service.listed(stock.product));
          const [answer] = (await once(stream, 'data')) as unknown[];
          await once(stream, 'close');
          return answer;
        }),
    ],
    [
      'a call whose signal is aborted when it has ended',
      ({ locks }) =>
        inTransaction(async () => {
          const leaving = new AbortController();
          try {
            const options = { ...RESTART, signal: leaving.signal };
            return await locks.withLock(stock.key, options, takeOne);
          } finally {
            leaving.abort();
          }
        }),
    ],
  ];

  beforeEach(async () => {
    dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
    runs = 0;
  });

  it.each(CALLS)('%s is run again in the transaction that is restarted for it', async (_, call) => {
    const { app, url } = await startHttp({
      imports: [RedisLockModule.forRoot({ connection: redis.url })],
      controllers: [StockController],
      providers: [StockService],
    });
    const client = await connectTcp(app);
    const started: Started = {
      service: app.get(StockService),
      locks: app.get(LockService),
      url,
      send: (pattern) => lastValueFrom(client.send(pattern, { product: stock.product })),
    };
    expect(await call(started)).toBe('sold');
    expect([runs > 1, await stock.quantity()]).toEqual([true, 99]);
    expect(await app.get(LockService).inspect(stock.key)).toBeNull();
  });

  it('a call whose signal was aborted before is refused, and the transaction continues', async () => {
    const { locks } = await startLocks(redis.url);
    const signal = AbortSignal.abort();
    const code = await inTransaction(async () => {
      const call = locks.withLock(stock.key, { ...RESTART, signal }, takeOne);
      return call.catch((error: unknown) => (error as LockError).code);
    });
    expect([code, runs, await stock.quantity()]).toEqual(['LOCK_ABORTED', 1, 100]);
  });

  it.each([
    ['the first one', (values: Observable<string>) => firstValueFrom(values)],
    ['one of them', (values: Observable<string>) => lastValueFrom(values.pipe(take(1)))],
  ])('an Observable under the outer lock may be unsubscribed after %s', async (_, read) => {
    const { app, locks } = await startLocks(redis.url, {}, [StockService]);
    const service = app.get(StockService);
    const sale = locks.withLock(stock.key, () =>
      inTransaction(() => read(service.watched(stock.product))),
    );
    expect([await sale, await stock.quantity()]).toEqual(['sold', 99]);
  });
});

describe('several lock services', () => {
  const redis = useRedis();
  const postgres = usePostgres();

  /** The names sort in the opposite order. */
  @Injectable()
  class Services {
    constructor(
      @InjectLockService('zoo') readonly first: LockService,
      @InjectLockService('ant') readonly last: LockService,
    ) {}
  }

  it.each([
    ['the one without a prefix first', {}],
    ['by their prefixes', { keyPrefix: 'app:' }],
  ])('a restart takes the keys of two services in one order: %s', async (_, prefix) => {
    const dataSource = lockAwareDataSource(await openDataSource('postgres', postgres.settings));
    const restarting = { connection: redis.url, insideTransaction: 'restart' } as const;
    const { first, last } = (
      await startNest({
        imports: [
          RedisLockModule.forRoot({ ...restarting, name: 'zoo', ...prefix }),
          RedisLockModule.forRoot({ ...restarting, name: 'ant', keyPrefix: 'billing:' }),
        ],
        providers: [Services],
      })
    ).get(Services);
    const { locks: others } = await startLocks(redis.url, prefix);
    const key = uniqueKey('stock');
    const busy = await others.acquire(key);
    const sold = dataSource.transaction(async () => {
      await last.withLock(key, async () => {});
      await first.withLock(key, async () => {});
    });
    const observed = ({ keyPrefix = 'lock:' }: { readonly keyPrefix?: string }): LockObserver =>
      new LockObserver({ admin: openAdmin(redis.url) }, keyPrefix);
    await observed(prefix).waiting(key, 1);
    expect(await observed({ keyPrefix: 'billing:' }).holder(key)).toBeNull();
    await busy.release();
    await sold;
  });
});
