import { setTimeout as sleep } from 'node:timers/promises';
import { SLOW_ANSWERS } from '../history/entry.js';
import { CROWD_KEYS, LONE_KEYS } from '../keys.js';
import type { ProxiedStage } from '../stages/stage.js';
import { type Faults, noted, onProxy, someWorker } from './fault.js';
import { CROWD_MS, sendCrowd } from './key-faults.js';

/** Who meets a dead connection notices it by the time limit of a command. */
const SOCKET_FOUND_DEAD_MS = 1_500;
/** A lease of this many round trips can be renewed. */
const ROUND_TRIPS_OF_A_LEASE = 4;
/** Longer than the answers are slow. */
const SLOW_HOLD_MS = 3_000;

/** What can happen to a proxy between workers and the server. */
export const PROXY_FAULTS: Faults<ProxiedStage> = {
  'proxy cut': onProxy((proxy) => proxy.cut()),
  'proxy restarted': onProxy(async (proxy, random) => {
    await proxy.close();
    await sleep(random.between(0, 600));
    await proxy.open();
  }),
  [SLOW_ANSWERS]: async (scene) => {
    const { random, stage } = scene;
    const longest = random.pick([30, 100, 250]);
    const held = { do: 'hold', ms: SLOW_HOLD_MS, through: stage.proxy.url } as const;
    for (const key of LONE_KEYS) someWorker(scene)?.tell({ ...held, key }); // must be renewed meanwhile
    const keepsLeasesFromMs = longest * ROUND_TRIPS_OF_A_LEASE;
    await noted(scene, { disturbs: 'all', keepsLeasesFromMs }, async () => {
      stage.proxy.slowDown(() => random.between(0, longest));
      await sleep(random.between(800, 2_000));
      stage.proxy.slowDown(() => 0);
    });
  },
  /** As a NAT does with connections that it has forgotten: they stay open, and nothing comes through. */
  'sockets dead': onProxy((proxy) => {
    proxy.swallow();
    return sleep(SOCKET_FOUND_DEAD_MS);
  }),
  /** As over a longer way, where many requests are under way when their calls give up. */
  'crowd gives up far away': (scene) =>
    noted({ ...scene, name: SLOW_ANSWERS }, { disturbs: 'nothing' }, async () => {
      const { proxy } = scene.stage;
      const ms = scene.random.between(5, 40);
      proxy.slowDown(() => ms);
      sendCrowd(scene, CROWD_KEYS, proxy.url);
      await sleep(CROWD_MS);
      proxy.slowDown(() => 0);
    }),
};
