import { Injectable } from '@nestjs/common';
import { Locked, RedisLockModule } from 'nestjs-locked';
import type { Outcome, Scenario } from '../scenario.js';
import { startApplication } from '../stage/application.js';
import { murlockModule, SETTINGS } from '../stage/peer-modules.js';
import { connect, RedisServer } from '../stage/redis.js';

/** The names that two different pairs of values have in Redis. */
async function keysOf(
  server: RedisServer,
  take: (shop: string, sku: string, work: () => Promise<void>) => Promise<void>,
): Promise<Outcome> {
  const redis = await connect(server);
  const held: string[] = [];
  const note = async (): Promise<void> => void held.push(...(await redis.keys('*[bc]*')));
  await take('a:b', 'c', note);
  await take('a', 'b:c', note);
  const locks = held.filter((key) => /b.*c\}?$/.test(key) && !key.includes(':process:'));
  const isDistinct = new Set(locks).size === 2;
  return {
    holds: isDistinct,
    figure: isDistinct ? 'two locks' : 'one lock',
    words: `Keys: ${[...new Set(locks)].map((key) => `"${key}"`).join(' and ')}.`,
  };
}

export const scenario: Scenario = {
  title: 'Different values, the same key',
  workload: 'Two unrelated calls, for ("a:b", "c") and for ("a", "b:c").',
  peers: [
    {
      library: 'murlock',
      settings: SETTINGS.murlock,
      async run() {
        const { MurLock } = await import('murlock');
        const server = await RedisServer.start();
        @Injectable()
        class StockService {
          @MurLock(5000, 'shop', 'sku')
          async take(shop: string, sku: string, work: () => Promise<void>): Promise<void> {
            if (shop !== sku) await work();
          }
        }
        const app = await startApplication({
          imports: [await murlockModule(server)],
          providers: [StockService],
        });
        return keysOf(server, (...call) => app.get(StockService).take(...call));
      },
    },
  ],
  ours: {
    settings: 'The defaults.',
    async run() {
      const server = await RedisServer.start();
      @Injectable()
      class StockService {
        @Locked('stock:<shop>:<sku>')
        async take(shop: string, sku: string, work: () => Promise<void>): Promise<void> {
          if (shop !== sku) await work();
        }
      }
      const app = await startApplication({
        imports: [RedisLockModule.forRoot({ connection: server.url })],
        providers: [StockService],
      });
      return keysOf(server, (...call) => app.get(StockService).take(...call));
    },
  },
};
