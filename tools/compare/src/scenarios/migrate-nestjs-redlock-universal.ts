import { Locked } from 'nestjs-locked';
import { universal } from '../stage/decorated.js';
import { migrationScenario } from '../stage/migration.js';

export const scenario = migrationScenario({
  ...universal,
  async locks() {
    const { Redlock } = await universal.load();
    const ours = Locked('stock:<id>');
    return {
      old: Redlock({ key: (id: string) => `stock:${id}` }),
      around: Locked('stock:<0>'),
      new: ours,
      oneKey: [Redlock({ key: (id: string) => `lock:{stock:${id}}` }), ours],
    };
  },
});
