import { Inject, Injectable } from '@nestjs/common';
import { ClsPluginTransactional, Transactional, TransactionHost } from '@nestjs-cls/transactional';
import { ClsModule } from 'nestjs-cls';
import { Locked } from 'nestjs-locked';
import { lockAwareAdapter } from 'nestjs-locked/nestjs-cls';
import { defer, finalize, from, lastValueFrom, Observable, timer } from 'rxjs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Scenario } from '../scenario.js';
import { withMutex } from '../stage/clients.js';
import {
  around,
  type Decorated,
  decorated,
  type LockDecorator,
  murlock,
  nestjsRedis,
  nestRedlock,
  ours,
  universal,
} from '../stage/decorated.js';
import { Inside } from '../stage/inside.js';
import { connect } from '../stage/redis.js';
import { inSeconds, settled } from '../stage/settled.js';
import { SlowDatabase, SlowDatabaseAdapter } from '../stage/slow-database.js';

/** Longer than the short locks last, and than it takes a peer to ask again. */
const WORK_MS = 1_500;

export const fiftyCallers: Scenario<Decorated> = {
  title: 'Fifty callers for one key',
  workload: `50 calls for one key arrive at once in one process; each works for 20 ms.`,
  async play({ lock, start }) {
    const inside = new Inside();
    @Injectable()
    class StockService {
      @lock
      async take(id: string): Promise<void> {
        if (id === '42') await inside.work(20);
      }
    }
    const stocks = await start(StockService);
    const from = performance.now();
    const calls = await Promise.allSettled(Array.from({ length: 50 }, () => stocks.take('42')));
    const took = inSeconds(performance.now() - from);
    const served = calls.filter(({ status }) => status === 'fulfilled').length;
    return {
      holds: served === calls.length && inside.most === 1,
      figure: `${served} of ${calls.length} served`,
      words: `At most ${inside.most} inside; over after ${took}.`,
    };
  },
  peers: [
    murlock(({ MurLock }) => MurLock(5000, 'id'), {
      note: '`blocking: true` waits without limit instead.',
    }),
    nestjsRedis(({ Redlock }) => Redlock('stock', 5000)),
    universal(({ Redlock }) => Redlock({ key: (id: string) => `stock:${id}` })),
    nestRedlock(({ Redlock }) => Redlock((_: unknown, id: string) => `stock:${id}`)),
    {
      library: 'redis-semaphore',
      settings: 'README: a `Mutex` for each call, defaults (a try every 10 ms for 10 s).',
      async open(server) {
        const redis = await connect(server);
        return decorated(around((work, id: string) => withMutex(redis, `stock:${id}`, work)));
      },
    },
  ],
  ours: ours(Locked('stock:<id>'), 'The defaults (`waitMs: 10_000`).'),
};

export const workOutlivesLock: Scenario<Decorated> = {
  title: 'Work that takes longer than the lock lasts',
  workload: `Two calls for one key, 50 ms apart. Each works for ${WORK_MS} ms, longer than the lock lasts.`,
  async play({ lock, start }) {
    const inside = new Inside();
    @Injectable()
    class StockService {
      @lock
      async take(id: string): Promise<void> {
        if (id === '42') await inside.work(WORK_MS);
      }
    }
    const stocks = await start(StockService);
    const first = stocks.take('42');
    await sleep(50);
    const calls = await Promise.allSettled([first, stocks.take('42')]);
    const failed = calls.filter(({ status }) => status === 'rejected').length;
    return {
      holds: inside.most === 1 && failed === 0,
      figure: `${inside.most} inside at once`,
      words: `${inside.entered} worked, ${failed} of 2 callers got an error.`,
    };
  },
  peers: [
    nestjsRedis(({ Redlock }) => Redlock('stock'), {
      settings: 'The default of `@Redlock`, 100 ms. The decorator does not renew it.',
      note: '`withLock` of its service renews if it is given an `extensionThresholdMs`.',
    }),
    murlock(({ MurLock }) => MurLock(500, 'id'), {
      settings: `\`@MurLock(500)\`. ${murlock.settings}`,
      note: 'With `autoExtend: true` on its main branch, in no release yet, the lock is renewed. Its README calls this number the waiting time of a caller.',
    }),
  ],
  ours: ours(
    Locked('stock:<id>', { leaseMs: 500 }),
    '`leaseMs: 500`, the shortest there is. It is renewed while the work runs.',
  ),
};

export const waiterTimesOut: Scenario<Decorated> = {
  title: 'A waiter gives up',
  workload: `One call works for ${WORK_MS} ms. A second waits 200 ms and gives up; then a third comes.`,
  async play({ lock, start }) {
    const inside = new Inside();
    @Injectable()
    class StockService {
      @lock
      async take(id: string): Promise<void> {
        if (id === '42') await inside.work(WORK_MS);
      }
    }
    const stocks = await start(StockService);
    const holder = stocks.take('42');
    await sleep(50);
    await stocks.take('42').catch(() => {}); // gives up after 200 ms
    await stocks.take('42').catch(() => {});
    await holder;
    const holds = inside.most === 1;
    return {
      holds,
      figure: `${inside.most} inside at once`,
      words: holds
        ? 'The call that gives up leaves the lock alone.'
        : 'The call that gave up deleted the lock of the holder, and the third got in.',
    };
  },
  peers: [
    {
      library: 'nestjs-simple-redis-lock',
      settings: "`@RedisLock('stock', 60_000, 50, 4)`: four tries, 50 ms apart.",
      async open({ port }) {
        const { RedisLock, RedisLockModule, RedisLockService } =
          await import('nestjs-simple-redis-lock');
        const { RedisModule } = await import('@liaoliaots/nestjs-redis');
        const lock: LockDecorator = (target, name, descriptor) => {
          Inject(RedisLockService)(target, 'lockService'); // the decorator expects it there
          return RedisLock('stock', 60_000, 50, 4)(target, name, descriptor);
        };
        return decorated(
          lock,
          RedisModule.forRoot({ config: { host: '127.0.0.1', port } }) as never,
          RedisLockModule.register({}) as never,
        );
      },
    },
  ],
  ours: ours(Locked('stock:<id>', { waitMs: 200 }), '`waitMs: 200`.'),
};

export const nestedCall: Scenario<Decorated> = {
  title: 'A locked method calls another one of the same key',
  workload: 'Two locked methods of one service with the same key; one calls the other.',
  async play({ lock, start }) {
    @Injectable()
    class StockService {
      @lock
      async check(id: string): Promise<string> {
        return id;
      }

      @lock
      async take(id: string): Promise<string> {
        return this.check(id);
      }
    }
    const stocks = await start(StockService);
    const result = await settled(stocks.take('42'), 15_000);
    if (result.state === 'fulfilled') {
      return { holds: true, figure: 'joins', words: 'The inner call shares the outer lock.' };
    }
    return {
      holds: false,
      figure: `fails after ${inSeconds(result.afterMs)}`,
      words: result.state === 'rejected' ? `"${result.error.message}"` : 'There was no answer.',
    };
  },
  peers: [
    murlock(({ MurLock }) => MurLock(20_000, 'stock', 'id'), {
      settings: `\`lockKeyPrefix: 'custom'\`, so that both methods share a key. ${murlock.settings}`,
      note: 'With `reentrant: true` on its main branch, in no release yet, the inner call joins.',
      options: { lockKeyPrefix: 'custom' },
    }),
    universal(({ Redlock }) => Redlock({ key: (id: string) => `stock:${id}` })),
    nestRedlock(({ Redlock }) => Redlock((_: unknown, id: string) => `stock:${id}`, 5_000), {
      settings: `\`@Redlock(…, 5000)\`. ${nestRedlock.settings}`,
    }),
  ],
  ours: ours(Locked('stock:<id>')),
};

export const observableResult: Scenario<Decorated> = {
  title: 'A method that returns an Observable',
  workload:
    'Two calls for one key; the work begins when the Observable is subscribed to and takes 1.5 s.',
  async play({ lock, start }) {
    const inside = new Inside();
    /** Begins with the subscription and ends with the stream. */
    const work = (): Observable<number> =>
      defer(() => {
        inside.enter();
        return timer(WORK_MS).pipe(finalize(() => inside.leave()));
      });
    @Injectable()
    class StockService {
      @lock
      take(id: string): Observable<number> {
        return id === '42' ? work() : timer(0);
      }
    }
    const stocks = await start(StockService);
    /** Some peers turn the Observable into a Promise of one: that is given its chance. */
    const call = async (): Promise<void> => {
      const result = (await (stocks.take('42') as unknown)) as Observable<number>;
      await lastValueFrom(from(result));
    };
    await Promise.allSettled([call(), call()]);
    const holds = inside.most === 1;
    return {
      holds,
      figure: `${inside.most} inside at once`,
      words: holds
        ? 'The lock is taken at the subscription and kept until the stream ends.'
        : 'The lock was released before the subscription.',
    };
  },
  peers: [
    nestjsRedis(({ Redlock }) => Redlock('stock', 5000)),
    nestRedlock(({ Redlock }) => Redlock('stock')),
    universal(({ Redlock }) => Redlock({ key: 'stock' })),
    murlock(({ MurLock }) => MurLock(5000, 'id')),
  ],
  ours: ours(Locked('stock:<id>')),
};

const CALLS = 20;
const STOCK = 100;

interface Tool extends Decorated {
  /** What a library makes of the adapter of the database. */
  adapt?(adapter: SlowDatabaseAdapter): SlowDatabaseAdapter;
}

export const lockInTransaction: Scenario<Tool> = {
  title: 'The lock inside the transaction',
  workload:
    `${CALLS} sales at once, with \`@Transactional\` above the lock: it is released before COMMIT, ` +
    'which takes 30 ms.',
  async play({ lock, start, adapt = (adapter) => adapter }) {
    @Injectable()
    class StockService {
      constructor(readonly host: TransactionHost<SlowDatabaseAdapter>) {}

      @Transactional()
      @lock
      async take(id: string): Promise<void> {
        const left = await this.host.tx.read();
        if (id === '42') this.host.tx.write(left - 1);
      }
    }
    const database = new SlowDatabase();
    database.quantity = STOCK;
    const adapter = adapt(new SlowDatabaseAdapter(database));
    const stocks = await start(
      StockService,
      ClsModule.forRoot({ plugins: [new ClsPluginTransactional({ adapter })] }),
    );
    const calls = await Promise.allSettled(Array.from({ length: CALLS }, () => stocks.take('42')));
    const refused = calls.filter((call) => call.status === 'rejected');
    const done = CALLS - refused.length;
    const lost = database.quantity - (STOCK - done);
    const [first] = refused;
    const why = first === undefined ? '' : ` The others: "${(first.reason as Error).message}"`;
    return {
      holds: lost === 0,
      figure: `${lost} of ${done} sales lost`,
      words: `${done} sales reported, ${database.quantity} of ${STOCK} left.${why}`,
    };
  },
  peers: [
    nestRedlock(
      ({ Redlock }) =>
        Redlock((_: unknown, id: string) => `stock:${id}`, 5_000, { retryCount: -1 }),
      {
        settings: '`retryCount: -1`, so that no call gives up.',
        note: 'The other order loses nothing, but is not documented.',
      },
    ),
    murlock(({ MurLock }) => MurLock(5000, 'id'), {
      settings: '`blocking: true`, `wait: 20`, so that no call gives up.',
      note: 'Its README gives the right order; nothing checks it.',
      options: { blocking: true, wait: 20 },
    }),
  ],
  ours: {
    settings:
      "`lockAwareAdapter(adapter)`, `insideTransaction: 'restart'`. The default, `'reject'`, refuses all calls.",
    open: async (server) => ({
      ...(await ours(Locked('stock:<id>', { insideTransaction: 'restart' })).open(server)),
      adapt: lockAwareAdapter,
    }),
  },
};
