import { Injectable, type Type } from '@nestjs/common';
import { Locked, RedisLockModule } from 'nestjs-locked';
import { startApplication } from '../stage/application.js';
import { type Instance, migrationScenario } from '../stage/migration.js';
import { SETTINGS, universalModule } from '../stage/peer-modules.js';
import type { RedisServer } from '../stage/redis.js';

interface Service {
  take(id: string, work: () => Promise<void>): Promise<void>;
}

export const scenario = migrationScenario({
  library: 'nestjs-redlock-universal',
  settings: SETTINGS.universal,

  async old(server) {
    const { Redlock } = await import('nestjs-redlock-universal');
    @Injectable()
    class StockService {
      @Redlock({ key: (id: string) => `stock:${id}` })
      async take(_id: string, work: () => Promise<void>): Promise<void> {
        await work();
      }
    }
    return start(server, StockService);
  },

  async both(server) {
    const { Redlock } = await import('nestjs-redlock-universal');
    @Injectable()
    class StockService {
      @Locked('stock:<0>')
      @Redlock({ key: (id: string) => `stock:${id}` })
      async take(_id: string, work: () => Promise<void>): Promise<void> {
        await work();
      }
    }
    return start(server, StockService);
  },

  async after(server) {
    @Injectable()
    class StockService {
      @Locked('stock:<id>')
      async take(id: string, work: () => Promise<void>): Promise<void> {
        if (id) await work();
      }
    }
    return start(server, StockService);
  },

  async oneKey(server) {
    const { Redlock } = await import('nestjs-redlock-universal');
    @Injectable()
    class StockService {
      @Redlock({ key: (id: string) => `lock:{stock:${id}}` })
      async take(_id: string, work: () => Promise<void>): Promise<void> {
        await work();
      }
    }
    return [await start(server, StockService), await this.after(server)];
  },
});

async function start(server: RedisServer, service: Type<Service>): Promise<Instance> {
  const app = await startApplication({
    imports: [RedisLockModule.forRoot({ connection: server.url }), await universalModule(server)],
    providers: [service],
  });
  return (work) => app.get(service).take('42', work);
}
