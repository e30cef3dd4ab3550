import { setTimeout as sleep } from 'node:timers/promises';
import { HOT_KEYS, LONG_KEYS, WARM_KEYS } from '../keys.js';
import type { ClusterStage } from '../servers/cluster-stage.js';
import { type Master, masterOf, serverOf } from '../servers/stage.js';
import { type Fault, noted, type Scene } from './fault.js';
import { standStill } from './standstill.js';

/**
 * What can happen to the masters of a cluster. What a replica did not know when it took its master's place is written
 * down by the stage, whatever the reason was.
 */
export const CLUSTER_FAULTS = {
  'cluster fails over': (scene) =>
    whole(scene, async (stage, master) => {
      const effects = { disturbs: serverOf(master.keys) };
      await noted(scene, 'cluster fails over', effects, () => stage.failOver(master));
    }),
  'master killed': (scene) =>
    whole(scene, async (stage, master) => {
      await noted(scene, 'master killed', { disturbs: awayOf(stage, master) }, async () => {
        await master.server.kill();
        await stage.replaced(master);
      });
      await sleep(scene.random.between(0, 2_000));
      await master.server.restart();
    }),
  /** When it goes on, it has commands on its way, and does not know that there is another master. */
  'master stopped': (scene) =>
    whole(scene, async (stage, master) => {
      let goOn = (): void => {};
      await noted(scene, 'master stopped', { disturbs: awayOf(stage, master) }, async () => {
        goOn = standStill(master.server);
        await stage.replaced(master);
      });
      await sleep(scene.random.between(0, 1_500));
      goOn();
    }),
  /** Calls may have to wait for it, but no lease may be lost. */
  'slot moved': (scene) =>
    whole(scene, async (stage) => {
      const { random } = scene;
      const key = random.pick([...HOT_KEYS, ...WARM_KEYS, ...LONG_KEYS]);
      const from = masterOf(key, stage);
      const to = random.pick(stage.masters.filter(({ server }) => server !== from.server));
      const longest = random.pick([10, 100, 600, 1_500]);
      await noted(scene, 'slot moved', { disturbs: { slotOf: key } }, () =>
        stage.moveSlotOf(key, from, to, () => sleep(random.between(0, longest))),
      );
    }),
} satisfies Record<string, Fault>;

/** Begins when every master has its replica, and ends when that is so again. */
async function whole(
  scene: Scene,
  act: (stage: ClusterStage, master: Master) => Promise<void>,
): Promise<void> {
  const stage = scene.stage as ClusterStage;
  await stage.settled();
  await act(stage, scene.random.pick(stage.masters));
  await stage.settled();
}

/** What is disturbed while a master is away. */
function awayOf({ isAllOrNothing }: ClusterStage, { keys }: Master): ReturnType<typeof serverOf> {
  return isAllOrNothing ? 'all' : serverOf(keys);
}
