import { Injectable, type Type } from '@nestjs/common';
import { Locked, RedisLockModule } from 'nestjs-locked';
import { startApplication } from '../stage/application.js';
import { type Instance, migrationScenario } from '../stage/migration.js';
import { murlockModule, SETTINGS } from '../stage/peer-modules.js';
import type { RedisServer } from '../stage/redis.js';

interface Service {
  take(id: string, work: () => Promise<void>): Promise<void>;
}

export const scenario = migrationScenario({
  library: 'murlock',
  settings: SETTINGS.murlock,

  async old(server) {
    const { MurLock } = await import('murlock');
    @Injectable()
    class StockService {
      @MurLock(5000, 'id')
      async take(id: string, work: () => Promise<void>): Promise<void> {
        if (id) await work();
      }
    }
    return start(server, StockService);
  },

  async both(server) {
    const { MurLock } = await import('murlock');
    @Injectable()
    class StockService {
      @Locked('stock:<0>')
      @MurLock(5000, 'id')
      async take(id: string, work: () => Promise<void>): Promise<void> {
        if (id) await work();
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
    const { MurLockService } = await import('murlock');
    const app = await startApplication({ imports: [await murlockModule(server)] });
    const theirs: Instance = (work) =>
      app.get(MurLockService).runWithLock('lock:{stock:42}', 5_000, work);
    return [theirs, await this.after(server)];
  },
});

async function start(server: RedisServer, service: Type<Service>): Promise<Instance> {
  const app = await startApplication({
    imports: [RedisLockModule.forRoot({ connection: server.url }), await murlockModule(server)],
    providers: [service],
  });
  return (work) => app.get(service).take('42', work);
}
