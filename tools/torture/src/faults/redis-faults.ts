import { setTimeout as sleep } from 'node:timers/promises';
import type { SingleStage } from '../servers/single-stage.js';
import { type Master, serverOf } from '../servers/stage.js';
import { type Effects, type Fault, noted, type Scene } from './fault.js';
import { standStill } from './standstill.js';

const TROUBLE = { disturbs: 'all' } as const;

/** What can happen to a server without anything being lost. If there are several masters, it happens to one of them. */
export const REDIS_FAULTS = {
  'redis paused': (scene) => paused('redis paused', 20, 300)(scene),
  'redis paused for long': (scene) => paused('redis paused for long', 300, 1_800)(scene),
  'clients paused': onMaster('clients paused', async ({ admin }, random) => {
    const ms = random.between(20, 900);
    await admin.call('CLIENT', 'PAUSE', ms, random.pick(['ALL', 'WRITE']));
    await sleep(ms);
  }),
  'out of memory': onMaster('out of memory', async ({ admin }, random) => {
    await admin.config('SET', 'maxmemory', '100kb');
    await sleep(random.between(50, 1_200));
    await admin.config('SET', 'maxmemory', '0');
  }),
  /** Nothing at all may be noticed of it. */
  'scripts flushed': (scene) =>
    noted(scene, 'scripts flushed', { disturbs: 'nothing' }, () =>
      scene.random.pick(scene.stage.masters).admin.script('FLUSH'),
    ),
} satisfies Record<string, Fault>;

/** What only a server with a disk of its own can survive. */
export const RESTARTS = {
  'redis restarted empty': (scene) =>
    noted(
      scene,
      'redis restarted empty',
      { ...TROUBLE, forgets: 'all', notice: 'reconnect' },
      (nothingMoreIsForgotten) => restart(scene, false, nothingMoreIsForgotten),
    ),
  'redis restarted with its data': (scene) =>
    noted(scene, 'redis restarted with its data', TROUBLE, () => restart(scene, true)),
} satisfies Record<string, Fault>;

/** Does something to one of the masters. */
export function onMaster(
  name: string,
  act: (master: Master, random: Scene['random']) => Promise<unknown>,
  effects: (keys: ReturnType<typeof serverOf>) => Partial<Effects> = () => ({}),
): Fault {
  return (scene) => {
    const master = scene.random.pick(scene.stage.masters);
    const disturbs = serverOf(master.keys);
    return noted(scene, name, { disturbs, ...effects(disturbs) }, () => act(master, scene.random));
  };
}

function paused(name: string, low: number, high: number): Fault {
  return onMaster(name, async ({ server }, random) => {
    const goOn = standStill(server);
    await sleep(random.between(low, high));
    goOn();
  });
}

async function restart(
  { stage, random }: Scene,
  keepsData: boolean,
  isDead: () => void = () => {},
): Promise<void> {
  const single = stage as SingleStage;
  await single.server.kill();
  isDead();
  await sleep(random.between(0, 300));
  await single.restart(keepsData);
}
