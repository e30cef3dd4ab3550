import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-locked';
import { instanceOf, migrationScenario } from '../stage/migration.js';
import { nestjsRedisModule, SETTINGS } from '../stage/peer-modules.js';

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
    return instanceOf(StockService, server, await nestjsRedisModule(server));
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
    return instanceOf(StockService, server, await nestjsRedisModule(server));
  },

  async after(server) {
    @Injectable()
    class StockService {
      @Locked('stock')
      async take(_id: string, work: () => Promise<void>): Promise<void> {
        await work();
      }
    }
    return instanceOf(StockService, server, await nestjsRedisModule(server));
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
    return [
      await instanceOf(StockService, server, await nestjsRedisModule(server)),
      await this.after(server),
    ];
  },
});
