import { setTimeout as sleep } from 'node:timers/promises';
import type { Concerned, Effects } from '../history/entry.js';
import type { Master } from '../stages/stage.js';
import { type Faults, noted, onMaster, pauseFor } from './fault.js';

/** What can happen to a server without anything being lost. If there are several masters, it happens to one of them. */
const SERVER_FAULTS: Faults = {
  'redis paused': onMaster(({ server }, random) => pauseFor(server, random.between(20, 300))),
  'redis paused for long': onMaster(({ server }, random) =>
    pauseFor(server, random.between(300, 1_800)),
  ),
  'clients paused': onMaster(async ({ admin }, random) => {
    const ms = random.between(20, 900);
    await admin.call('CLIENT', 'PAUSE', ms, random.pick(['ALL', 'WRITE']));
    await sleep(ms);
  }),
  'out of memory': onMaster(async ({ admin }, random) => {
    await admin.config('SET', 'maxmemory', '100kb');
    await sleep(random.between(50, 1_200));
    await admin.config('SET', 'maxmemory', '0');
  }),
  /** Nothing at all may be noticed of it. */
  'scripts flushed': (scene) =>
    noted(scene, { disturbs: 'nothing' }, () =>
      scene.random.pick(scene.stage.masters).admin.script('FLUSH'),
    ),
};

/** What can happen to the connections between workers and a server. */
const CONNECTION_FAULTS: Faults = {
  'command connections cut': onMaster(cutCommands),
  'all connections cut': onMaster((master) =>
    Promise.all([cutInboxes(master), cutCommands(master)]),
  ),
};

/**
 * Leases can be renewed, and those who wait look for themselves, so that nobody may notice it. Only what an operator
 * does is told by a message alone.
 */
const silence = (silences: Concerned): Effects => ({ disturbs: 'nothing', silences });

/** What happens to the connections on which processes hear of their turn, while commands go on as always. */
const INBOX_FAULTS: Faults = {
  'inboxes cut': onMaster(cutInboxes, silence),
  'inboxes cut again and again': onMaster(async (master, random) => {
    for (let n = random.between(3, 15); n > 0; n--) {
      await cutInboxes(master);
      await sleep(random.between(50, 300));
    }
  }, silence),
  'inboxes refused': onMaster(async (master, random) => {
    const { admin } = master;
    await admin.call('ACL', 'SETUSER', 'default', '-subscribe', '-ssubscribe');
    try {
      await cutInboxes(master);
      await sleep(random.between(500, 4_000));
    } finally {
      await admin.call('ACL', 'SETUSER', 'default', '+subscribe', '+ssubscribe');
    }
  }, silence),
};

function cutCommands({ admin }: Master): Promise<unknown> {
  return admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
}

function cutInboxes({ admin }: Master): Promise<unknown> {
  return admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
}

/** What can happen to Redis on every stage. */
export const REDIS_FAULTS: Faults = { ...SERVER_FAULTS, ...CONNECTION_FAULTS, ...INBOX_FAULTS };
