import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-locked';
import { startApplication } from '../stage/application.js';
import { type Instance, instanceOf, migrationScenario } from '../stage/migration.js';
import { murlockModule, SETTINGS } from '../stage/peer-modules.js';

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
    return instanceOf(StockService, server, await murlockModule(server));
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
    return instanceOf(StockService, server, await murlockModule(server));
  },

  async after(server) {
    @Injectable()
    class StockService {
      @Locked('stock:<id>')
      async take(id: string, work: () => Promise<void>): Promise<void> {
        if (id) await work();
      }
    }
    return instanceOf(StockService, server, await murlockModule(server));
  },

  async oneKey(server) {
    const { MurLockService } = await import('murlock');
    const app = await startApplication({ imports: [await murlockModule(server)] });
    const theirs: Instance = (work) =>
      app.get(MurLockService).runWithLock('lock:{stock:42}', 5_000, work);
    return [theirs, await this.after(server)];
  },
});
