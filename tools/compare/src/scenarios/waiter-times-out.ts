import { Injectable } from '@nestjs/common';
import { Locked, RedisLockModule } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Outcome, Scenario } from '../scenario.js';
import { startApplication } from '../stage/application.js';
import { Inside } from '../stage/inside.js';
import { RedisServer } from '../stage/redis.js';

const WORK_MS = 1_500;

const inside = new Inside();

async function threeCalls(take: (id: string) => Promise<void>): Promise<Outcome> {
  const holder = take('42');
  await sleep(50);
  await take('42').catch(() => {}); // gives up after 200 ms
  await take('42').catch(() => {});
  await holder;
  return {
    holds: inside.most === 1,
    figure: `${inside.most} inside at once`,
    words:
      inside.most === 1
        ? 'The call that gives up leaves the lock alone.'
        : 'The call that gave up deleted the lock of the holder, and the third got in.',
  };
}

export const scenario: Scenario = {
  title: 'A waiter gives up',
  workload: `One call works for ${WORK_MS} ms. A second waits 200 ms and gives up; then a third comes.`,
  peers: [
    {
      library: 'nestjs-simple-redis-lock',
      settings: "`@RedisLock('stock', 60_000, 50, 4)`: four tries, 50 ms apart.",
      async run() {
        const {
          RedisLock,
          RedisLockModule: PeerModule,
          RedisLockService,
        } = await import('nestjs-simple-redis-lock');
        const { RedisModule } = await import('@liaoliaots/nestjs-redis');
        const { port } = await RedisServer.start();
        @Injectable()
        class StockService {
          constructor(readonly lockService: InstanceType<typeof RedisLockService>) {}

          @RedisLock('stock', 60_000, 50, 4)
          async take(_id: string): Promise<void> {
            await inside.work(WORK_MS);
          }
        }
        Reflect.defineMetadata('design:paramtypes', [RedisLockService], StockService);
        const app = await startApplication({
          imports: [
            RedisModule.forRoot({ config: { host: '127.0.0.1', port } }) as never,
            PeerModule.register({}) as never,
          ],
          providers: [StockService],
        });
        return threeCalls((id) => app.get(StockService).take(id));
      },
    },
  ],
  ours: {
    settings: '`waitMs: 200`.',
    async run() {
      const { url } = await RedisServer.start();
      @Injectable()
      class StockService {
        @Locked('stock:<id>', { waitMs: 200 })
        async take(id: string): Promise<void> {
          if (id === '42') await inside.work(WORK_MS);
        }
      }
      const app = await startApplication({
        imports: [RedisLockModule.forRoot({ connection: url })],
        providers: [StockService],
      });
      return threeCalls((id) => app.get(StockService).take(id));
    },
  },
};
