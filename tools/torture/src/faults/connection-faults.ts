import { setTimeout as sleep } from 'node:timers/promises';
import { LONE_KEYS } from '../keys.js';
import type { LatencyProxy } from '../servers/latency-proxy.js';
import type { Master, ProxiedStage } from '../servers/stage.js';
import { type Effects, type Fault, noted, type Scene } from './fault.js';
import { onMaster } from './redis-faults.js';
import { someWorker } from './worker-faults.js';

/** The name of the fault during which answers arrive up to a quarter of a second later. */
export const SLOW_ANSWERS = 'slow answers';

/** What can happen to the connections between workers and a server. */
export const CONNECTION_FAULTS = {
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

/**
 * Leases can be renewed, and those who wait look for themselves, so that nobody may notice it. Only what an operator
 * does is told by a message alone.
 */
function inboxOnly(silences: NonNullable<Effects['silences']>): Effects {
  return { disturbs: 'nothing', silences };
}

/** What happens to the connections on which processes hear of their turn, while commands go on as always. */
export const INBOX_FAULTS = {
  'inboxes cut': onMaster('inboxes cut', cutInboxes, inboxOnly),
  'inboxes cut again and again': onMaster(
    'inboxes cut again and again',
    async (master, random) => {
      for (let n = random.between(3, 15); n > 0; n--) {
        await cutInboxes(master);
        await sleep(random.between(50, 300));
      }
    },
    inboxOnly,
  ),
  'inboxes refused': onMaster(
    'inboxes refused',
    async (master, random) => {
      const { admin } = master;
      await admin.call('ACL', 'SETUSER', 'default', '-subscribe', '-ssubscribe');
      try {
        await cutInboxes(master);
        await sleep(random.between(500, 4_000));
      } finally {
        await admin.call('ACL', 'SETUSER', 'default', '+subscribe', '+ssubscribe');
      }
    },
    inboxOnly,
  ),
} satisfies Record<string, Fault>;

function cutInboxes({ admin }: Master): Promise<unknown> {
  return admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
}

/** What can happen to a proxy between workers and the server. */
export const PROXY_FAULTS = {
  'proxy cut': onProxy('proxy cut', async (proxy) => {
    proxy.cut();
  }),
  'proxy restarted': onProxy('proxy restarted', async (proxy, random) => {
    await proxy.close();
    await sleep(random.between(0, 600));
    await proxy.open();
  }),
  'slow answers': (scene) => slowAnswers(scene, scene.random.pick([30, 100, 250])),
  /** As a NAT does with connections that it has forgotten: they stay open, and nothing comes through. */
  'sockets dead': onProxy('sockets dead', async (proxy) => {
    proxy.swallow();
    await sleep(SOCKET_FOUND_DEAD_MS);
  }),
} satisfies Record<string, Fault>;

/** Who meets a dead connection notices it by the time limit of a command. */
const SOCKET_FOUND_DEAD_MS = 1_500;

/** A lease of this many round trips can be renewed. */
const ROUND_TRIPS_OF_A_LEASE = 4;

/** Longer than the answers are slow. */
const SLOW_HOLD_MS = 3_000;

async function slowAnswers(scene: Scene, longest: number): Promise<void> {
  const { random } = scene;
  const { proxy } = scene.stage as ProxiedStage;
  const keepsLeasesFromMs = longest * ROUND_TRIPS_OF_A_LEASE;
  const held = { do: 'hold', ms: SLOW_HOLD_MS, through: proxy.url } as const;
  for (const key of LONE_KEYS) someWorker(scene)?.tell({ ...held, key }); // must be renewed meanwhile
  await noted(scene, SLOW_ANSWERS, { disturbs: 'all', keepsLeasesFromMs }, async () => {
    proxy.slowDown(() => random.between(0, longest));
    await sleep(random.between(800, 2_000));
    proxy.slowDown(() => 0);
  });
}

function onProxy(
  name: string,
  act: (proxy: LatencyProxy, random: Scene['random']) => Promise<void>,
): Fault {
  return (scene) =>
    noted(scene, name, { disturbs: 'all' }, () =>
      act((scene.stage as ProxiedStage).proxy, scene.random),
    );
}
