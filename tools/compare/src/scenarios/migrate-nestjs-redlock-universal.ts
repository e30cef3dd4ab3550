import { Injectable } from '@nestjs/common';
import { Locked } from 'nestjs-locked';
import { instanceOf, migrationScenario } from '../stage/migration.js';
import { SETTINGS, universalModule } from '../stage/peer-modules.js';

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
    return instanceOf(StockService, server, await universalModule(server));
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
    return instanceOf(StockService, server, await universalModule(server));
  },

  async after(server) {
    @Injectable()
    class StockService {
      @Locked('stock:<id>')
      async take(id: string, work: () => Promise<void>): Promise<void> {
        if (id) await work();
      }
    }
    return instanceOf(StockService, server, await universalModule(server));
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
    return [
      await instanceOf(StockService, server, await universalModule(server)),
      await this.after(server),
    ];
  },
});
