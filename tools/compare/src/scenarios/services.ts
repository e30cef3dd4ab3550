import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-locked';
import { defer, finalize, from, lastValueFrom, Observable, timer } from 'rxjs';
import { setTimeout as sleep } from 'node:timers/promises';
import { played, type Scenario } from '../scenario.js';
import { openRedisson } from '../stage/clients.js';
import { around, type Decorated, decorated, ours } from '../stage/decorated.js';
import { type EngineName, type EngineSettings, engineSide } from '../stage/engines.js';
import { Inside } from '../stage/inside.js';
import {
  murlock,
  nestjsRedis,
  nestPeers,
  nestRedlock,
  simpleRedisLock,
  universal,
  withLockService,
} from '../stage/nest-peers.js';
import { inSeconds, settled } from '../stage/settled.js';

/** Longer than the short locks last, and than it takes a peer to ask again. */
const WORK_MS = 1_500;

const manyTries = { retryAttempts: 100 } as const;

/** A method under a lock that has no decorator. */
function engine(library: EngineName, settings?: EngineSettings) {
  return engineSide(
    library,
    ({ hold }) => decorated(around((work, id: string) => hold(`stock:${id}`, work))),
    settings,
  );
}

const FIFTY = '✓ 50 of 50 served';
const FEWER = '✗ # of 50 served';

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
  sides: [
    ...nestPeers({
      murlock: FEWER,
      nestjsRedis: FEWER,
      universal: FEWER,
      nestRedlock: FIFTY,
      simpleRedisLock: FIFTY,
    }),
    played(
      FIFTY,
      murlock(murlock.ofId, {
        settings: '`blocking: true`, `wait: 100`: waits without limit.',
        options: { blocking: true, wait: 100 },
      }),
      '`blocking`',
    ),
    played(
      FIFTY,
      nestjsRedis(nestjsRedis.ofId, {
        settings: '`maxRetryAttempts: 100`.',
        options: { maxRetryAttempts: 100 },
      }),
      '100 tries',
    ),
    played(
      FIFTY,
      universal(universal.ofId, { settings: '`retryAttempts: 100`.', options: manyTries }),
      '100 tries',
    ),
    played(FIFTY, engine('redlock4')),
    played(FIFTY, engine('redlock')),
    played(FIFTY, engine('@sesamecare-oss/redlock')),
    played(FEWER, engine('redlock-universal')),
    played(
      FIFTY,
      engine('redlock-universal', { own: manyTries, settings: '`retryAttempts: 100`.' }),
      '100 tries',
    ),
    played(FIFTY, engine('redis-semaphore')),
    played(FIFTY, engine('node-redisson')),
    played(FIFTY, engine('simple-redis-mutex')),
    played(FIFTY, ours(Locked('stock:<id>'), 'The defaults (`waitMs: 10_000`).')),
  ],
};

const SHORT_MS = 500;
/** The least that all of those without a decorator renew in a sensible rhythm. */
const ENGINE_MS = 1_000;
const ALONE = '✓ 1 inside at once';
const TOGETHER = '✗ 2 inside at once';
const oneSecond = { leaseMs: ENGINE_MS, settings: 'A lock of 1 s.' } as const;

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
      holds: inside.most === 1,
      figure: `${inside.most} inside at once`,
      words: `${inside.entered} worked, ${failed} of 2 callers got an error.`,
    };
  },
  sides: [
    played(
      TOGETHER,
      nestjsRedis(({ Redlock }) => Redlock('stock'), {
        settings: 'The default of `@Redlock`, 100 ms. The decorator does not renew it.',
      }),
    ),
    played(ALONE, nestjsRedis(nestjsRedis.ofId), 'a lock of 5 s'),
    played(
      TOGETHER,
      murlock(({ MurLock }) => MurLock(SHORT_MS, 'id'), {
        settings: `\`@MurLock(${SHORT_MS})\`, otherwise as in its README.`,
        note: 'With `autoExtend: true` on its main branch, in no release yet, the lock is renewed. Its README calls this number the waiting time of a caller.',
      }),
    ),
    played(ALONE, murlock(murlock.ofId), 'a lock of 5 s'),
    played(
      TOGETHER,
      simpleRedisLock(
        (library) =>
          withLockService(
            library.RedisLockService as never,
            library.RedisLock('stock', SHORT_MS) as never,
          ),
        { settings: `\`@RedisLock('stock', ${SHORT_MS})\`.` },
      ),
    ),
    played(ALONE, simpleRedisLock(simpleRedisLock.ofId), 'a lock of 1 min'),
    played(ALONE, nestRedlock(nestRedlock.ofId)),
    played(
      ALONE,
      universal(({ Redlock }) => Redlock({ key: 'stock', ttl: SHORT_MS, retryAttempts: 100 }), {
        settings: `\`ttl: ${SHORT_MS}\`, \`retryAttempts: 100\`.`,
      }),
    ),
    played(
      TOGETHER,
      engine('redlock4', { ...oneSecond, note: 'It renews when its user calls `extend`.' }),
    ),
    played(ALONE, engine('redlock4'), 'a lock of 5 s'),
    played(ALONE, engine('redlock', oneSecond)),
    played(ALONE, engine('@sesamecare-oss/redlock', oneSecond)),
    played(
      ALONE,
      engine('redlock-universal', {
        ...oneSecond,
        own: manyTries,
        settings: 'A lock of 1 s, `retryAttempts: 100`.',
      }),
    ),
    played(ALONE, engine('redis-semaphore', oneSecond)),
    played(ALONE, engine('node-redisson', oneSecond)),
    played(
      ALONE,
      engine('simple-redis-mutex', {
        ...oneSecond,
        note: 'The lock ends during the work, but a waiter asks again after 10 s only.',
      }),
    ),
    played(ALONE, engine('simple-redis-mutex'), 'a lock of 5 s'),
    played(
      ALONE,
      engine('@redis-kit/lock', {
        leaseMs: ENGINE_MS,
        own: { extensionThresholdMs: 500, maxRetryAttempts: 100 },
        settings: 'A lock of 1 s, `extensionThresholdMs: 500`, `maxRetryAttempts: 100`.',
      }),
    ),
    played(
      ALONE,
      ours(
        Locked('stock:<id>', { leaseMs: SHORT_MS }),
        '`leaseMs: 500`, the shortest there is. It is renewed while the work runs.',
      ),
    ),
  ],
};

const hasty = (own: object, settings: string): EngineSettings => ({ own, settings });

export const waiterTimesOut: Scenario<Decorated> = {
  title: 'A waiter gives up',
  workload: `One call works for ${WORK_MS} ms. A second waits a moment and gives up; then a third comes.`,
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
    const second = await settled(stocks.take('42'), 2 * WORK_MS);
    if (second.state !== 'rejected') throw new Error('The second did not give up');
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
  sides: [
    played(
      TOGETHER,
      simpleRedisLock(
        (library) =>
          withLockService(
            library.RedisLockService as never,
            library.RedisLock('stock', 60_000, 50, 4) as never,
          ),
        { settings: "`@RedisLock('stock', 60_000, 50, 4)`: four tries, 50 ms apart." },
      ),
    ),
    played(
      ALONE,
      murlock(murlock.ofId, { settings: '`wait: 50`, otherwise README.', options: { wait: 50 } }),
    ),
    played(
      ALONE,
      nestRedlock(
        ({ Redlock }) =>
          Redlock((_: unknown, id: string) => `stock:${id}`, 5_000, { retryCount: 1 }),
        { settings: '`@Redlock(…, 5_000, { retryCount: 1 })`.' },
      ),
    ),
    ...nestPeers({ nestjsRedis: ALONE, universal: ALONE }),
    played(ALONE, engine('redlock4', hasty({ retryCount: 1 }, '`retryCount: 1`.'))),
    played(ALONE, engine('redlock', hasty({ retryCount: 1 }, '`retryCount: 1`.'))),
    played(ALONE, engine('@sesamecare-oss/redlock', hasty({ retryCount: 1 }, '`retryCount: 1`.'))),
    played(ALONE, engine('redlock-universal')),
    played(
      ALONE,
      engine('redis-semaphore', hasty({ acquireTimeout: 200 }, '`acquireTimeout: 200`.')),
    ),
    played(ALONE, engine('simple-redis-mutex', hasty({ failAfter: 200 }, '`failAfter: 200`.'))),
    played(ALONE, ours(Locked('stock:<id>', { waitMs: 200 }), '`waitMs: 200`.')),
  ],
};

const FAILS = '✗ fails after # s';
const JOINS = '✓ joins';

export const nestedCall: Scenario<Decorated> = {
  title: 'A locked method calls another one of the same key',
  repeats: 1,
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
  sides: [
    played(
      FAILS,
      murlock(({ MurLock }) => MurLock(20_000, 'stock', 'id'), {
        settings: "`lockKeyPrefix: 'custom'`, so that both methods share a key; otherwise README.",
        note: 'With `reentrant: true` on its main branch, in no release yet, the inner call joins.',
        options: { lockKeyPrefix: 'custom' },
      }),
    ),
    ...nestPeers({ universal: FAILS, nestjsRedis: FAILS }),
    played(
      FAILS,
      nestRedlock(({ Redlock }) => Redlock((_: unknown, id: string) => `stock:${id}`, 5_000), {
        settings: '`@Redlock(…, 5000)`, otherwise README.',
      }),
    ),
    played(
      FAILS,
      simpleRedisLock(
        (library) =>
          withLockService(
            library.RedisLockService as never,
            library.RedisLock('stock', 60_000, 50, 4) as never,
          ),
        { settings: "`@RedisLock('stock', 60_000, 50, 4)`." },
      ),
    ),
    played(FAILS, engine('redis-semaphore')),
    played(FAILS, engine('redlock')),
    played(FAILS, engine('@sesamecare-oss/redlock')),
    played(FAILS, engine('redlock-universal')),
    played(FAILS, engine('node-redisson')),
    played(
      JOINS,
      {
        library: 'node-redisson',
        settings: 'One lock object for both calls.',
        note: 'Unrelated requests must not share it: they would all get in.',
        async open(server) {
          const lock = (await openRedisson(server)).getLock('stock:42');
          const hold = async (work: () => Promise<void>): Promise<void> => {
            await lock.lock();
            try {
              return await work();
            } finally {
              await lock.unlock();
            }
          };
          return decorated(around(hold));
        },
      },
      'one lock object',
    ),
    played(JOINS, ours(Locked('stock:<id>'))),
  ],
};

export const observableResult: Scenario<Decorated> = {
  title: 'A method that returns an Observable',
  repeats: 1,
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
  sides: [
    ...nestPeers({
      nestjsRedis: TOGETHER,
      nestRedlock: TOGETHER,
      universal: TOGETHER,
      murlock: TOGETHER,
      simpleRedisLock: TOGETHER,
    }),
    played(ALONE, ours(Locked('stock:<id>'))),
  ],
};
