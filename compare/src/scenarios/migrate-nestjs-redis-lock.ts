import { Injectable, type Type } from '@nestjs/common';
import { Locked, RedisLockModule } from 'nestjs-locked';
import { startApplication } from '../stage/application.js';
import { type Instance, migrationScenario } from '../stage/migration.js';
import { nestjsRedisModule, SETTINGS } from '../stage/peer-modules.js';
import type { RedisServer } from '../stage/redis.js';

interface Service {
  take(id: string, work: () => Promise<void>): Promise<void>;
}

export const scenario = migrationScenario({
  library: '@nestjs-redis/lock',
  settings: SETTINGS.nestjsRedis,

  async old(server) {
    const { Redlock } = await import('@nestjs-redis/lock');
    @Injectable()
    class StockService {
      @Redlock('stock', 5000)
      async take(_id: string, work: () => Promise<void>): Promise<void> {
        await work();
      }
    }
    return start(server, StockService);
  },

  async both(server) {
    const { Redlock } = await import('@nestjs-redis/lock');
    @Injectable()
    class StockService {
      @Locked('stock')
      @Redlock('stock', 5000)
      async take(_id: string, work: () => Promise<void>): Promise<void> {
        await work();
      }
    }
    return start(server, StockService);
  },

  async after(server) {
    @Injectable()
    class StockService {
      @Locked('stock')
      async take(_id: string, work: () => Promise<void>): Promise<void> {
        await work();
      }
    }
    return start(server, StockService);
  },

  async oneKey(server) {
    const { Redlock } = await import('@nestjs-redis/lock');
    @Injectable()
    class StockService {
      @Redlock('lock:{stock}', 5000)
      async take(_id: string, work: () => Promise<void>): Promise<void> {
        await work();
      }
    }
    return [await start(server, StockService), await this.after(server)];
  },
});

async function start(server: RedisServer, service: Type<Service>): Promise<Instance> {
  const app = await startApplication({
    imports: [RedisLockModule.forRoot({ connection: server.url }), await nestjsRedisModule(server)],
    providers: [service],
  });
  return (work) => app.get(service).take('42', work);
}
