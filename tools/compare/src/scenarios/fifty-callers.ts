import { Injectable } from '@nestjs/common';
import { Locked, RedisLockModule } from 'nestjs-locked';
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
import { connect, RedisServer } from '../stage/redis.js';

const CALLERS = 50;
const WORK_MS = 20;

const inside = new Inside();

/** Calls that arrive at the same time, and how many of them got their turn. */
async function serve(take: (id: string) => Promise<void>): Promise<Outcome> {
  const from = performance.now();
  const calls = await Promise.allSettled(Array.from({ length: CALLERS }, () => take('42')));
  const seconds = ((performance.now() - from) / 1_000).toFixed(1);
  const served = calls.filter(({ status }) => status === 'fulfilled').length;
  return {
    holds: served === CALLERS && inside.most === 1,
    figure: `${served} of ${CALLERS} served`,
    words: `At most ${inside.most} inside; over after ${seconds} s.`,
  };
}

export const scenario: Scenario = {
  title: 'Fifty callers for one key',
  workload: `${CALLERS} calls for one key arrive at once in one process; each works for ${WORK_MS} ms.`,
  peers: [
    {
      library: 'murlock',
      settings: SETTINGS.murlock,
      note: '`blocking: true` waits without limit instead.',
      async run() {
        const { MurLock } = await import('murlock');
        @Injectable()
        class StockService {
          @MurLock(5000, 'id')
          async take(id: string): Promise<void> {
            if (id === '42') await inside.work(WORK_MS);
          }
        }
        const app = await startApplication({
          imports: [await murlockModule(await RedisServer.start())],
          providers: [StockService],
        });
        return serve((id) => app.get(StockService).take(id));
      },
    },
    {
      library: '@nestjs-redis/lock',
      settings: SETTINGS.nestjsRedis,
      async run() {
        const { Redlock } = await import('@nestjs-redis/lock');
        @Injectable()
        class StockService {
          @Redlock('stock', 5000)
          async take(_id: string): Promise<void> {
            await inside.work(WORK_MS);
          }
        }
        const app = await startApplication({
          imports: [await nestjsRedisModule(await RedisServer.start())],
          providers: [StockService],
        });
        return serve((id) => app.get(StockService).take(id));
      },
    },
    {
      library: 'nestjs-redlock-universal',
      settings: SETTINGS.universal,
      async run() {
        const { Redlock } = await import('nestjs-redlock-universal');
        @Injectable()
        class StockService {
          @Redlock({ key: (id: string) => `stock:${id}` })
          async take(_id: string): Promise<void> {
            await inside.work(WORK_MS);
          }
        }
        const app = await startApplication({
          imports: [await universalModule(await RedisServer.start())],
          providers: [StockService],
        });
        return serve((id) => app.get(StockService).take(id));
      },
    },
    {
      library: '@anchan828/nest-redlock',
      settings: SETTINGS.nestRedlock,
      async run() {
        const { Redlock } = nestRedlock();
        @Injectable()
        class StockService {
          @Redlock((_: StockService, id: string) => `stock:${id}`)
          async take(_id: string): Promise<void> {
            await inside.work(WORK_MS);
          }
        }
        const app = await startApplication({
          imports: [await nestRedlockModule(await RedisServer.start())],
          providers: [StockService],
        });
        return serve((id) => app.get(StockService).take(id));
      },
    },
    {
      library: 'redis-semaphore',
      settings: 'README: a `Mutex` for each call, defaults (a try every 10 ms for 10 s).',
      async run() {
        const { Mutex } = await import('redis-semaphore');
        const redis = await connect(await RedisServer.start());
        return serve(async (id) => {
          const mutex = new Mutex(redis, `stock:${id}`);
          await mutex.acquire();
          try {
            await inside.work(WORK_MS);
          } finally {
            await mutex.release();
          }
        });
      },
    },
  ],
  ours: {
    settings: 'The defaults (`waitMs: 10_000`).',
    async run() {
      const server = await RedisServer.start();
      @Injectable()
      class StockService {
        @Locked('stock:<id>')
        async take(id: string): Promise<void> {
          if (id === '42') await inside.work(WORK_MS);
        }
      }
      const app = await startApplication({
        imports: [RedisLockModule.forRoot({ connection: server.url })],
        providers: [StockService],
      });
      return serve((id) => app.get(StockService).take(id));
    },
  },
};
