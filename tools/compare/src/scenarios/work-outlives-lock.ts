import { Injectable } from '@nestjs/common';
import { Locked, RedisLockModule } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Outcome, Scenario } from '../scenario.js';
import { startApplication } from '../stage/application.js';
import { Inside } from '../stage/inside.js';
import { murlockModule, nestjsRedisModule, SETTINGS } from '../stage/peer-modules.js';
import { RedisServer } from '../stage/redis.js';

const WORK_MS = 1_500;

const inside = new Inside();

async function twoCalls(take: (id: string) => Promise<void>): Promise<Outcome> {
  const first = take('42');
  await sleep(50);
  const calls = await Promise.allSettled([first, take('42')]);
  const failed = calls.filter(({ status }) => status === 'rejected').length;
  return {
    holds: inside.most === 1 && failed === 0,
    figure: `${inside.most} inside at once`,
    words: `${inside.entered} worked, ${failed} of 2 callers got an error.`,
  };
}

export const scenario: Scenario = {
  title: 'Work that takes longer than the lock lasts',
  workload: `Two calls for one key, 50 ms apart. Each works for ${WORK_MS} ms, longer than the lock lasts.`,
  peers: [
    {
      library: '@nestjs-redis/lock',
      settings: 'The default of `@Redlock`, 100 ms. The decorator does not renew it.',
      note: '`withLock` of its service renews if it is given an `extensionThresholdMs`.',
      async run() {
        const { Redlock } = await import('@nestjs-redis/lock');
        @Injectable()
        class StockService {
          @Redlock('stock')
          async take(_id: string): Promise<void> {
            await inside.work(WORK_MS);
          }
        }
        const app = await startApplication({
          imports: [await nestjsRedisModule(await RedisServer.start())],
          providers: [StockService],
        });
        return twoCalls((id) => app.get(StockService).take(id));
      },
    },
    {
      library: 'murlock',
      settings: `\`@MurLock(500)\`. ${SETTINGS.murlock}`,
      note: 'Its README calls this number the waiting time of a caller.',
      async run() {
        const { MurLock } = await import('murlock');
        @Injectable()
        class StockService {
          @MurLock(500, 'id')
          async take(id: string): Promise<void> {
            if (id === '42') await inside.work(WORK_MS);
          }
        }
        const app = await startApplication({
          imports: [await murlockModule(await RedisServer.start())],
          providers: [StockService],
        });
        return twoCalls((id) => app.get(StockService).take(id));
      },
    },
  ],
  ours: {
    settings: '`leaseMs: 500`, the shortest there is. It is renewed while the work runs.',
    async run() {
      const { url } = await RedisServer.start();
      @Injectable()
      class StockService {
        @Locked('stock:<id>', { leaseMs: 500 })
        async take(id: string): Promise<void> {
          if (id === '42') await inside.work(WORK_MS);
        }
      }
      const app = await startApplication({
        imports: [RedisLockModule.forRoot({ connection: url })],
        providers: [StockService],
      });
      return twoCalls((id) => app.get(StockService).take(id));
    },
  },
};
