import { Locked } from 'nestjs-locked';
import { around, murlock, startApplication } from '../stage/decorated.js';
import { migrationScenario } from '../stage/migration.js';

export const scenario = migrationScenario({
  ...murlock,
  async locks(server) {
    const { MurLock, MurLockService } = await murlock.load();
    const ours = Locked('stock:<id>');
    const app = await startApplication({ imports: [await murlock.module(server)] });
    const service = app.get(MurLockService);
    return {
      old: MurLock(5000, 'id'),
      around: Locked('stock:<0>'),
      new: ours,
      oneKey: [around((work) => service.runWithLock('lock:{stock:42}', 5_000, work)), ours],
    };
  },
});
