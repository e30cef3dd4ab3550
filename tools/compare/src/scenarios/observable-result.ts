import { Injectable } from '@nestjs/common';
import { Locked, RedisLockModule } from 'nestjs-locked';
import { defer, finalize, from, lastValueFrom, Observable, timer } from 'rxjs';
import type { Outcome, Scenario } from '../scenario.js';
import { startApplication } from '../stage/application.js';
import { Inside } from '../stage/inside.js';
import {
  murlockModule,
  nestjsRedisModule,
  nestRedlock,
  nestRedlockModule,
  SETTINGS,
  universalModule,
} from '../stage/peer-modules.js';
import { RedisServer } from '../stage/redis.js';

/** Longer than it takes a peer to ask again. */
const WORK_MS = 1_500;

const inside = new Inside();

/** Work that begins with the subscription and ends with the stream. */
function work(): Observable<number> {
  return defer(() => {
    inside.enter();
    return timer(WORK_MS).pipe(finalize(() => inside.leave()));
  });
}

/** Some peers turn the Observable into a Promise of one: that is given its chance. */
async function twoSubscribers(take: (id: string) => unknown): Promise<Outcome> {
  const call = async (): Promise<void> => {
    const result = (await take('42')) as Observable<number>;
    await lastValueFrom(from(result));
  };
  await Promise.allSettled([call(), call()]);
  return {
    holds: inside.most === 1,
    figure: `${inside.most} inside at once`,
    words:
      inside.most === 1
        ? 'The lock is taken at the subscription and kept until the stream ends.'
        : 'The lock was released before the subscription.',
  };
}

export const scenario: Scenario = {
  title: 'A method that returns an Observable',
  workload:
    'Two calls for one key; the work begins when the Observable is subscribed to and takes 1.5 s.',
  peers: [
    {
      library: '@nestjs-redis/lock',
      settings: SETTINGS.nestjsRedis,
      async run() {
        const { Redlock } = await import('@nestjs-redis/lock');
        @Injectable()
        class StockService {
          @Redlock('stock', 5000)
          take(_id: string): Observable<number> {
            return work();
          }
        }
        const app = await startApplication({
          imports: [await nestjsRedisModule(await RedisServer.start())],
          providers: [StockService],
        });
        return twoSubscribers((id) => app.get(StockService).take(id));
      },
    },
    {
      library: '@anchan828/nest-redlock',
      settings: SETTINGS.nestRedlock,
      async run() {
        const { Redlock } = nestRedlock();
        @Injectable()
        class StockService {
          @Redlock('stock')
          take(_id: string): Observable<number> {
            return work();
          }
        }
        const app = await startApplication({
          imports: [await nestRedlockModule(await RedisServer.start())],
          providers: [StockService],
        });
        return twoSubscribers((id) => app.get(StockService).take(id));
      },
    },
    {
      library: 'nestjs-redlock-universal',
      settings: SETTINGS.universal,
      async run() {
        const { Redlock } = await import('nestjs-redlock-universal');
        @Injectable()
        class StockService {
          @Redlock({ key: 'stock' })
          take(_id: string): Observable<number> {
            return work();
          }
        }
        const app = await startApplication({
          imports: [await universalModule(await RedisServer.start())],
          providers: [StockService],
        });
        return twoSubscribers((id) => app.get(StockService).take(id));
      },
    },
    {
      library: 'murlock',
      settings: SETTINGS.murlock,
      async run() {
        const { MurLock } = await import('murlock');
        @Injectable()
        class StockService {
          @MurLock(5000, 'id')
          take(id: string): Observable<number> {
            return id === '42' ? work() : timer(0);
          }
        }
        const app = await startApplication({
          imports: [await murlockModule(await RedisServer.start())],
          providers: [StockService],
        });
        return twoSubscribers((id) => app.get(StockService).take(id));
      },
    },
  ],
  ours: {
    settings: 'The defaults.',
    async run() {
      const { url } = await RedisServer.start();
      @Injectable()
      class StockService {
        @Locked('stock:<id>')
        take(id: string): Observable<number> {
          return id === '42' ? work() : timer(0);
        }
      }
      const app = await startApplication({
        imports: [RedisLockModule.forRoot({ connection: url })],
        providers: [StockService],
      });
      return twoSubscribers((id) => app.get(StockService).take(id));
    },
  },
};
