import { setTimeout as sleep } from 'node:timers/promises';
import type { SentinelStage } from '../servers/sentinel-stage.js';
import { type Fault, noted, type Scene } from './fault.js';
import { standStill } from './standstill.js';

const TROUBLE = { disturbs: 'all' } as const;

/**
 * What can happen to servers that sentinels watch. What a replica did not know when it became master is written down by
 * the stage, whatever the reason was.
 */
export const SENTINEL_FAULTS = {
  /** The old master goes on for ten seconds, for those who do not listen to the sentinels. */
  'sentinels fail over': (scene) =>
    failOver(scene, async ({ set }) => {
      await noted(scene, 'sentinels fail over', TROUBLE, () => set.failOver());
    }),
  'master killed': (scene) =>
    failOver(scene, async ({ set }) => {
      const master = await set.master();
      await noted(scene, 'master killed', TROUBLE, async () => {
        await master.kill();
        await set.successorOf(master);
      });
      await sleep(scene.random.between(0, 2_000));
      await master.restart();
    }),
  /** When it goes on, it has commands on its way, and does not know that there is another master. */
  'master stopped': (scene) =>
    failOver(scene, async ({ set }) => {
      const master = await set.master();
      let goOn = (): void => {};
      await noted(scene, 'master stopped', TROUBLE, async () => {
        goOn = standStill(master);
        await set.successorOf(master);
      });
      await sleep(scene.random.between(0, 2_000));
      goOn();
    }),
  /** The other two are enough, and nothing at all may be noticed of it. */
  'sentinel killed': (scene) =>
    noted(scene, 'sentinel killed', { disturbs: 'nothing' }, async () => {
      const { set } = stageOf(scene);
      const sentinel = scene.random.pick(set.watchers);
      await sentinel.kill();
      await sleep(scene.random.between(100, 2_500));
      await sentinel.restart();
    }),
} satisfies Record<string, Fault>;

/** Lets a failover happen, and waits until the old master follows: it is told by an operator or by the sentinels. */
async function failOver(scene: Scene, act: (stage: SentinelStage) => Promise<void>): Promise<void> {
  const stage = stageOf(scene);
  await stage.settled();
  await act(stage);
  if (scene.random.chance(0.5)) {
    await sleep(scene.random.between(0, 3_000));
    await stage.demoteOldMaster();
  }
  await stage.settled();
}

function stageOf({ stage }: Scene): SentinelStage {
  return stage as SentinelStage;
}
