import { setTimeout as sleep } from 'node:timers/promises';
import type { SingleStage } from '../servers/single-stage.js';
import { type Fault, noted } from './fault.js';

const TROUBLE = { disturbs: 'all' } as const;

/** What can happen to a server without anything being lost. */
export const REDIS_FAULTS = {
  'redis paused': (scene) => paused('redis paused', 20, 300)(scene),
  'redis paused for long': (scene) => paused('redis paused for long', 300, 1_800)(scene),
  'clients paused': (scene) =>
    noted(scene, 'clients paused', TROUBLE, async () => {
      const { random, stage } = scene;
      const ms = random.between(20, 900);
      await stage.admin.call('CLIENT', 'PAUSE', ms, random.pick(['ALL', 'WRITE']));
      await sleep(ms);
    }),
  'out of memory': (scene) =>
    noted(scene, 'out of memory', TROUBLE, async () => {
      const { random, stage } = scene;
      await stage.admin.config('SET', 'maxmemory', '100kb');
      await sleep(random.between(50, 1_200));
      await stage.admin.config('SET', 'maxmemory', '0');
    }),
  /** Nothing at all may be noticed of it. */
  'scripts flushed': (scene) =>
    noted(scene, 'scripts flushed', { disturbs: 'nothing' }, () =>
      scene.stage.admin.script('FLUSH'),
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

function paused(name: string, low: number, high: number): Fault {
  return (scene) =>
    noted(scene, name, TROUBLE, async () => {
      const { server } = scene.stage;
      server.pause();
      await sleep(scene.random.between(low, high));
      server.resume();
    });
}

async function restart(
  { stage, random }: Parameters<Fault>[0],
  keepsData: boolean,
  isDead: () => void = () => {},
): Promise<void> {
  await stage.server.kill();
  isDead();
  await sleep(random.between(0, 300));
  await (stage as SingleStage).restart(keepsData);
}
