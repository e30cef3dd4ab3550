import { Injectable } from '@nestjs/common';
import { Locked, RedisLockModule } from 'nestjs-locked';
import type { Outcome, Scenario } from '../scenario.js';
import { startApplication } from '../stage/application.js';
import { Inside } from '../stage/inside.js';
import { nestRedlock, nestRedlockModule, SETTINGS } from '../stage/peer-modules.js';
import { connect, RedisServer } from '../stage/redis.js';

const inside = new Inside();

async function twoCalls(take: (ids: string[]) => Promise<unknown>): Promise<Outcome> {
  const calls = await Promise.allSettled([take([]), take([])]);
  const refused = calls.find(({ status }) => status === 'rejected');
  return {
    holds: inside.entered === 0,
    figure: inside.entered === 0 ? 'refused' : `${inside.most} inside at once`,
    words: refused
      ? `"${((refused as PromiseRejectedResult).reason as Error).message}"`
      : 'The work ran without any lock.',
  };
}

export const scenario: Scenario = {
  title: 'An empty list of keys',
  workload: 'Two concurrent calls with an empty list of keys.',
  peers: [
    {
      library: 'redlock',
      settings: '`acquire([])` with the defaults.',
      async run() {
        const { default: Redlock } = await import('redlock');
        const redlock = new Redlock([(await connect(await RedisServer.start())) as never]);
        return twoCalls(async (ids) => {
          const lock = await redlock.acquire(ids, 5_000);
          await inside.work(100);
          await lock.release();
        });
      },
    },
    {
      library: '@anchan828/nest-redlock',
      settings: SETTINGS.nestRedlock,
      async run() {
        const { Redlock } = nestRedlock();
        @Injectable()
        class StockService {
          @Redlock((_: StockService, ids: string[]) => ids.map((id) => `stock:${id}`))
          async take(_ids: string[]): Promise<void> {
            await inside.work(100);
          }
        }
        const app = await startApplication({
          imports: [await nestRedlockModule(await RedisServer.start())],
          providers: [StockService],
        });
        return twoCalls((ids) => app.get(StockService).take(ids));
      },
    },
  ],
  ours: {
    settings: 'The defaults.',
    async run() {
      const { url } = await RedisServer.start();
      @Injectable()
      class StockService {
        @Locked('stock:<ids[]>')
        async take(ids: string[]): Promise<void> {
          await inside.work(100 + ids.length);
        }
      }
      const app = await startApplication({
        imports: [RedisLockModule.forRoot({ connection: url })],
        providers: [StockService],
      });
      return twoCalls((ids) => app.get(StockService).take(ids));
    },
  },
};
