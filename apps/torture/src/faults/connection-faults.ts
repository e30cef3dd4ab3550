import { setTimeout as sleep } from 'node:timers/promises';
import type { LatencyProxy } from '../servers/latency-proxy.js';
import type { ProxiedStage } from '../servers/stage.js';
import { type Fault, noted, type Scene } from './fault.js';
import { onMaster } from './redis-faults.js';

/** What can happen to the connections between workers and a server. */
export const CONNECTION_FAULTS = {
  'inboxes cut': onMaster('inboxes cut', ({ admin }) =>
    admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub'),
  ),
  'command connections cut': onMaster('command connections cut', ({ admin }) =>
    admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'),
  ),
  'all connections cut': onMaster('all connections cut', ({ admin }) =>
    Promise.all([
      admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub'),
      admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'),
    ]),
  ),
} satisfies Record<string, Fault>;

/** What can happen to a proxy between workers and the server. */
export const PROXY_FAULTS = {
  'proxy cut': onProxy('proxy cut', async (proxy) => {
    proxy.cut();
  }),
  'proxy restarted': onProxy('proxy restarted', async (proxy, random) => {
    await proxy.close();
    await sleep(random.between(0, 600));
    await proxy.reopen();
  }),
  'slow answers': onProxy('slow answers', async (proxy, random) => {
    const longest = random.pick([30, 100, 250]);
    proxy.slowDown(() => random.between(0, longest));
    await sleep(random.between(800, 2_000));
    proxy.slowDown(() => 0);
  }),
} satisfies Record<string, Fault>;

function onProxy(
  name: string,
  act: (proxy: LatencyProxy, random: Scene['random']) => Promise<void>,
): Fault {
  return (scene) =>
    noted(scene, name, { disturbs: 'all' }, () =>
      act((scene.stage as ProxiedStage).proxy, scene.random),
    );
}
