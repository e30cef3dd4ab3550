import { Injectable } from '@nestjs/common';
import { Locked, RedisLockModule } from 'nestjs-locked';
import type { Outcome, Scenario } from '../scenario.js';
import { startApplication } from '../stage/application.js';
import {
  nestRedlock,
  nestRedlockModule,
  SETTINGS,
  universalModule,
} from '../stage/peer-modules.js';
import { RedisServer } from '../stage/redis.js';
import { settled } from '../stage/settled.js';

async function outcomeOf(call: Promise<unknown>): Promise<Outcome> {
  const result = await settled(call, 15_000);
  const seconds = (result.afterMs / 1_000).toFixed(1);
  return {
    holds: result.state === 'fulfilled',
    figure: result.state === 'fulfilled' ? 'joins' : `fails after ${seconds} s`,
    words:
      result.state === 'rejected'
        ? `"${result.error.message}"`
        : result.state === 'fulfilled'
          ? 'The inner call shares the outer lock.'
          : 'There was no answer.',
  };
}

export const scenario: Scenario = {
  title: 'A locked method calls another one of the same key',
  workload: 'Two locked methods of one service with the same key; one calls the other.',
  peers: [
    {
      library: 'murlock',
      settings: `\`lockKeyPrefix: 'custom'\`, so that both methods share a key. ${SETTINGS.murlock}`,
      async run() {
        const { MurLock, MurLockModule } = await import('murlock');
        const server = await RedisServer.start();
        @Injectable()
        class StockService {
          @MurLock(20_000, 'stock', 'id')
          async check(id: string): Promise<string> {
            return id;
          }

          @MurLock(20_000, 'stock', 'id')
          async take(id: string): Promise<string> {
            return this.check(id);
          }
        }
        const app = await startApplication({
          imports: [
            MurLockModule.forRoot({
              redisOptions: { url: server.url },
              wait: 1000,
              maxAttempts: 3,
              logLevel: 'error',
              lockKeyPrefix: 'custom',
            }),
          ],
          providers: [StockService],
        });
        return outcomeOf(app.get(StockService).take('42'));
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
          async check(id: string): Promise<string> {
            return id;
          }

          @Redlock({ key: (id: string) => `stock:${id}` })
          async take(id: string): Promise<string> {
            return this.check(id);
          }
        }
        const app = await startApplication({
          imports: [await universalModule(await RedisServer.start())],
          providers: [StockService],
        });
        return outcomeOf(app.get(StockService).take('42'));
      },
    },
    {
      library: '@anchan828/nest-redlock',
      settings: `\`@Redlock(…, 5000)\`. ${SETTINGS.nestRedlock}`,
      async run() {
        const { Redlock } = nestRedlock();
        @Injectable()
        class StockService {
          @Redlock((_: StockService, id: string) => `stock:${id}`, 5_000)
          async check(id: string): Promise<string> {
            return id;
          }

          @Redlock((_: StockService, id: string) => `stock:${id}`, 5_000)
          async take(id: string): Promise<string> {
            return this.check(id);
          }
        }
        const app = await startApplication({
          imports: [await nestRedlockModule(await RedisServer.start())],
          providers: [StockService],
        });
        return outcomeOf(app.get(StockService).take('42'));
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
        async check(id: string): Promise<string> {
          return id;
        }

        @Locked('stock:<id>')
        async take(id: string): Promise<string> {
          return this.check(id);
        }
      }
      const app = await startApplication({
        imports: [RedisLockModule.forRoot({ connection: url })],
        providers: [StockService],
      });
      return outcomeOf(app.get(StockService).take('42'));
    },
  },
};
