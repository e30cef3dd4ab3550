import { setTimeout as sleep } from 'node:timers/promises';
import { CROWD_KEYS } from '../keys.js';
import type { ProxiedStage } from '../servers/stage.js';
import { serverOf } from '../servers/stage.js';
import type { GivesUp } from '../worker/crowd.js';
import { SLOW_ANSWERS } from './connection-faults.js';
import { type Fault, noted, type Scene } from './fault.js';
import { standStill } from './standstill.js';
import { someWorker } from './worker-faults.js';

const AFTER_MS = 1_500;

/** Many calls that give up at the same time. */
export const CROWDS = {
  /** Nobody else may notice it. */
  'crowd gives up': (scene) =>
    noted(scene, 'crowd gives up', { disturbs: 'nothing' }, async () => {
      sendCrowd(scene, CROWD_KEYS);
      await sleep(AFTER_MS);
    }),
  /** Only who wants keys of this server may notice it. */
  'crowd gives up on a silent server': async (scene) => {
    const { server, keys } = scene.random.pick(scene.stage.masters);
    const disturbs = serverOf(keys);
    await noted(scene, 'crowd gives up on a silent server', { disturbs }, async () => {
      const goOn = standStill(server);
      sendCrowd(
        scene,
        CROWD_KEYS.filter((key) => keys === 'all' || keys.includes(key)),
      );
      await sleep(scene.random.between(700, 1_800)); // shorter than the others need to replace it
      goOn();
    });
  },
} satisfies Record<string, Fault>;

/** As over a longer way, where many requests are under way when their calls give up. */
export const FAR_CROWDS = {
  'crowd gives up far away': async (scene) => {
    const { proxy } = scene.stage as ProxiedStage;
    await noted(scene, SLOW_ANSWERS, { disturbs: 'nothing' }, async () => {
      const ms = scene.random.between(5, 40);
      proxy.slowDown(() => ms);
      sendCrowd(scene, CROWD_KEYS, proxy.url);
      await sleep(AFTER_MS);
      proxy.slowDown(() => 0);
    });
  },
} satisfies Record<string, Fault>;

function sendCrowd(scene: Scene, keys: readonly string[], through?: string): void {
  const { random } = scene;
  const gives: GivesUp = random.pick([
    'at once',
    'in the next turn',
    random.between(1, 60),
  ] as const);
  someWorker(scene)?.tell({
    do: 'send a crowd',
    keys: [...keys],
    gives,
    ...(through === undefined ? {} : { through }),
  });
}
