import { Locked } from 'nestjs-locked';
import { nestjsRedis } from '../stage/decorated.js';
import { migrationScenario } from '../stage/migration.js';

export const scenario = migrationScenario({
  ...nestjsRedis,
  async locks() {
    const { Redlock } = await nestjsRedis.load();
    const ours = Locked('stock');
    return {
      old: Redlock('stock', 5000),
      around: ours,
      new: ours,
      oneKey: [Redlock('lock:{stock}', 5000), ours],
    };
  },
});
