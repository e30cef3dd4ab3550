import { Injectable } from '@nestjs/common';
import { Locked, RedisLockModule } from 'nestjs-locked';
import type { Scenario } from '../scenario.js';
import { startApplication } from '../stage/application.js';
import { murlockModule, SETTINGS } from '../stage/peer-modules.js';
import { connect, RedisServer } from '../stage/redis.js';
import { judgeError, OutOfStock } from '../stage/result-after-loss.js';
import { settled } from '../stage/settled.js';

const LIMIT_MS = 10_000;

export const scenario: Scenario = {
  title: 'A lost lock, and the work throws',
  workload:
    'The lock is gone before the work ends (its key was deleted, as after a failover); then the work throws its own error.',
  peers: [
    {
      library: 'redlock',
      settings: '`using` with the defaults and 5 s.',
      async run() {
        const { default: Redlock } = await import('redlock');
        const redis = await connect(await RedisServer.start());
        const redlock = new Redlock([redis as never]);
        redlock.on('error', () => {});
        const call = redlock.using(['stock:42'], 5_000, async () => {
          await redis.flushall();
          throw new OutOfStock('none left');
        });
        return judgeError(await settled(call, LIMIT_MS));
      },
    },
    {
      library: '@sesamecare-oss/redlock',
      settings: '`using` with the defaults and 5 s.',
      async run() {
        const { Redlock } = await import('@sesamecare-oss/redlock');
        const redis = await connect(await RedisServer.start());
        const redlock = new Redlock([redis]);
        redlock.on('error', () => {});
        const call = redlock.using(['stock:42'], 5_000, async () => {
          await redis.flushall();
          throw new OutOfStock('none left');
        });
        return judgeError(await settled(call, LIMIT_MS));
      },
    },
    {
      library: 'murlock',
      settings: SETTINGS.murlock,
      note: '`ignoreUnlockFail: true` avoids it, at the price of every other failed release.',
      async run() {
        const { MurLock } = await import('murlock');
        const server = await RedisServer.start();
        const redis = await connect(server);
        @Injectable()
        class StockService {
          @MurLock(5000, 'id')
          async take(id: string): Promise<string> {
            if (id === '42') await redis.flushall();
            throw new OutOfStock('none left');
          }
        }
        const app = await startApplication({
          imports: [await murlockModule(server)],
          providers: [StockService],
        });
        return judgeError(await settled(app.get(StockService).take('42'), LIMIT_MS));
      },
    },
  ],
  ours: {
    settings: 'The defaults.',
    async run() {
      const server = await RedisServer.start();
      const redis = await connect(server);
      @Injectable()
      class StockService {
        @Locked('stock:<id>')
        async take(id: string): Promise<string> {
          if (id === '42') await redis.flushall();
          throw new OutOfStock('none left');
        }
      }
      const app = await startApplication({
        imports: [RedisLockModule.forRoot({ connection: server.url })],
        providers: [StockService],
      });
      return judgeError(await settled(app.get(StockService).take('42'), LIMIT_MS));
    },
  },
};
