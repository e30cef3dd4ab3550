import { ConflictException, Controller, Get, Param } from '@nestjs/common';
import { Locked, RedisLockModule } from 'nestjs-locked';
import type { Outcome, Scenario } from '../scenario.js';
import { startServer } from '../stage/application.js';
import { SETTINGS, universalModule } from '../stage/peer-modules.js';
import { RedisServer } from '../stage/redis.js';

async function answerOf(url: string): Promise<Outcome> {
  const { status } = await fetch(`${url}/stock/42`);
  return {
    holds: status === 409,
    figure: String(status),
    words: status === 409 ? 'The client got the right answer.' : 'The client got a server error.',
  };
}

export const scenario: Scenario = {
  title: 'A handler that answers 409 under the lock',
  workload: 'A route whose method throws a `ConflictException` while it holds the lock.',
  peers: [
    {
      library: 'nestjs-redlock-universal',
      settings: SETTINGS.universal,
      note: 'The decorator is below `@Get`, where the route works.',
      async run() {
        const { Redlock } = await import('nestjs-redlock-universal');
        @Controller('stock')
        class StockController {
          @Get(':id')
          @Redlock({ key: 'stock' })
          async get(): Promise<string> {
            throw new ConflictException('none left');
          }
        }
        const redis = await universalModule(await RedisServer.start());
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
        @Get(':id')
        @Locked('stock:<id>')
        async get(@Param('id') id: string): Promise<string> {
          throw new ConflictException(`none left of ${id}`);
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
