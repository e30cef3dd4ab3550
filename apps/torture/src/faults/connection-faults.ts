import { setTimeout as sleep } from 'node:timers/promises';
import { type Fault, noted } from './fault.js';

const CUT = { disturbs: 'all' } as const;

/** What can happen between workers and Redis. */
export const CONNECTION_FAULTS = {
  'inboxes cut': (scene) =>
    noted(scene, 'inboxes cut', CUT, () =>
      scene.stage.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub'),
    ),
  'command connections cut': (scene) =>
    noted(scene, 'command connections cut', CUT, () =>
      scene.stage.admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'),
    ),
  'all connections cut': (scene) =>
    noted(scene, 'all connections cut', CUT, async () => {
      const { admin } = scene.stage;
      await Promise.all([
        admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub'),
        admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'),
      ]);
    }),
  'proxy cut': (scene) =>
    noted(scene, 'proxy cut', CUT, async () => {
      scene.stage.proxy.cut();
    }),
  'proxy restarted': (scene) =>
    noted(scene, 'proxy restarted', CUT, async () => {
      await scene.stage.proxy.close();
      await sleep(scene.random.between(0, 600));
      await scene.stage.proxy.reopen();
    }),
  'slow answers': (scene) =>
    noted(scene, 'slow answers', CUT, async () => {
      const { random, stage } = scene;
      const longest = random.pick([30, 100, 250]);
      stage.proxy.slowDown(() => random.between(0, longest));
      await sleep(random.between(800, 2_000));
      stage.proxy.slowDown(() => 0);
    }),
} satisfies Record<string, Fault>;
