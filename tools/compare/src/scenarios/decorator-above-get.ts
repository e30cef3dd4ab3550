import { Controller, Get, Param } from '@nestjs/common';
import { Locked, RedisLockModule } from 'nestjs-locked';
import type { Outcome, Scenario } from '../scenario.js';
import { startServer } from '../stage/application.js';
import {
  murlockModule,
  nestjsRedisModule,
  nestRedlock,
  nestRedlockModule,
  SETTINGS,
  universalModule,
} from '../stage/peer-modules.js';
import { RedisServer } from '../stage/redis.js';

async function answerOf(url: string): Promise<Outcome> {
  const { status } = await fetch(`${url}/stock/42`);
  return {
    holds: status === 200,
    figure: String(status),
    words: status === 200 ? 'The route works.' : 'The route is gone, without a message.',
  };
}

export const scenario: Scenario = {
  title: "The lock's decorator above `@Get`",
  workload: 'An HTTP request for a route whose method has the lock’s decorator above `@Get()`.',
  peers: [
    {
      library: '@nestjs-redis/lock',
      settings: SETTINGS.nestjsRedis,
      note: 'Below `@Get`, the route works.',
      async run() {
        const { Redlock } = await import('@nestjs-redis/lock');
        @Controller('stock')
        class StockController {
          @Redlock('stock', 5000)
          @Get(':id')
          async get(): Promise<string> {
            return 'ten';
          }
        }
        const redis = await nestjsRedisModule(await RedisServer.start());
        return answerOf(await startServer({ imports: [redis], controllers: [StockController] }));
      },
    },
    {
      library: '@anchan828/nest-redlock',
      settings: SETTINGS.nestRedlock,
      note: 'Below `@Get`, the route works.',
      async run() {
        const { Redlock } = nestRedlock();
        @Controller('stock')
        class StockController {
          @Redlock('stock')
          @Get(':id')
          async get(): Promise<string> {
            return 'ten';
          }
        }
        const redis = await nestRedlockModule(await RedisServer.start());
        return answerOf(await startServer({ imports: [redis], controllers: [StockController] }));
      },
    },
    {
      library: 'nestjs-redlock-universal',
      settings: SETTINGS.universal,
      note: 'Below `@Get`, the route works.',
      async run() {
        const { Redlock } = await import('nestjs-redlock-universal');
        @Controller('stock')
        class StockController {
          @Redlock({ key: 'stock' })
          @Get(':id')
          async get(): Promise<string> {
            return 'ten';
          }
        }
        const redis = await universalModule(await RedisServer.start());
        return answerOf(await startServer({ imports: [redis], controllers: [StockController] }));
      },
    },
    {
      library: 'murlock',
      settings: SETTINGS.murlock,
      async run() {
        const { MurLock } = await import('murlock');
        @Controller('stock')
        class StockController {
          @MurLock(5000, 'id')
          @Get(':id')
          async get(@Param('id') id: string): Promise<string> {
            return `ten of ${id}`;
          }
        }
        const redis = await murlockModule(await RedisServer.start());
        return answerOf(await startServer({ imports: [redis], controllers: [StockController] }));
      },
    },
  ],
  ours: {
    settings: 'The defaults.',
    async run() {
      const { url } = await RedisServer.start();
      @Controller('stock')
      class StockController {
        @Locked('stock:<id>')
        @Get(':id')
        async get(@Param('id') id: string): Promise<string> {
          return `ten of ${id}`;
        }
      }
      return answerOf(
        await startServer({
          imports: [RedisLockModule.forRoot({ connection: url })],
          controllers: [StockController],
        }),
      );
    },
  },
};
