import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { FORCED } from '../history/entry.js';
import { monotonicMs } from '../history/history-file.js';
import { ALL_KEYS, CROWD_KEYS, HOT_KEYS, WARM_KEYS } from '../keys.js';
import { masterOf, serverOf } from '../stages/stage.js';
import type { GivesUp } from '../worker/crowd.js';
import { type Fault, type Faults, noted, type Scene, someWorker, standStill } from './fault.js';

/** A crowd has given up by then. */
export const CROWD_MS = 1_500;

/** What can happen to one key. */
const ONE_KEY_FAULTS: Faults = {
  'key deleted': onKey((scene, { key, lock, admin }) =>
    noted(scene, takenAway(key), () => admin.del(lock)),
  ),
  'key overwritten': onKey(async (scene, { key, lock, admin }) => {
    const token = `somebody else ${randomBytes(4).toString('hex')}`;
    const leaseMs = 2_000;
    const setAt = monotonicMs();
    await noted(scene, takenAway(key), () => admin.set(lock, token, 'PX', leaseMs));
    const at = monotonicMs();
    await sleep(scene.random.between(50, 700));
    // It lasts from when it was set, less the difference that the clocks of two programs may have.
    const until = Math.min(monotonicMs(), setAt + leaseMs - 50);
    scene.history.note('foreign', { call: `foreign/${token}`, key, until, leaseMs }, at);
    await admin.eval(DELETE_OWN, 1, lock, token);
  }),
  [FORCED]: async (scene) => {
    someWorker(scene)?.tell({ do: 'force release', key: scene.random.pick(ALL_KEYS) });
  },
  /** A crowd of processes that stood in the queue and died. It must not keep the living waiting. */
  'dead waiters': onKey((scene, { lock, admin }) =>
    noted(scene, { disturbs: 'nothing' }, async () => {
      const [seconds, micros] = await admin.time();
      const now = Number(seconds) * 1e6 + Number(micros);
      const dead = Array.from({ length: 150 }, (_, n) => [
        now - 1_000 + n,
        `${randomBytes(16).toString('hex')}:1`,
      ]);
      await admin.zadd(`${lock}:queue`, ...dead.flat());
      await admin.pexpire(`${lock}:queue`, 60_000);
    }),
  ),
};

/** Many calls that give up at the same time. */
const CROWDS: Faults = {
  /** Nobody else may notice it. */
  'crowd gives up': (scene) =>
    noted(scene, { disturbs: 'nothing' }, async () => {
      sendCrowd(scene, CROWD_KEYS);
      await sleep(CROWD_MS);
    }),
  /** Only who wants keys of this server may notice it. */
  'crowd gives up on a silent server': (scene) => {
    const { server, keys } = scene.random.pick(scene.stage.masters);
    return noted(scene, { disturbs: serverOf(keys) }, async () => {
      const goOn = standStill(server);
      const its = CROWD_KEYS.filter((key) => keys === 'all' || keys.includes(key));
      sendCrowd(scene, its);
      await sleep(scene.random.between(700, 1_800)); // shorter than the others need to replace it
      goOn();
    });
  },
};

/** @param through the URL by which Redis is reached, if that matters */
export function sendCrowd(scene: Scene, keys: readonly string[], through?: string): void {
  const { random } = scene;
  const ways: readonly GivesUp[] = ['at once', 'in the next turn', random.between(1, 60)];
  const order = { do: 'send a crowd', keys, gives: random.pick(ways) } as const;
  someWorker(scene)?.tell({ ...order, ...(through !== undefined && { through }) });
}

export const KEY_FAULTS: Faults = { ...ONE_KEY_FAULTS, ...CROWDS };

const DELETE_OWN = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end`;

function takenAway(key: string) {
  return { disturbs: { key }, forgets: { key }, notice: 'renewal' } as const;
}

interface KeyOfMaster {
  readonly key: string;
  /** The name of the lock in Redis. */
  readonly lock: string;
  readonly admin: ReturnType<typeof masterOf>['admin'];
}

function onKey(act: (scene: Scene, it: KeyOfMaster) => Promise<void>): Fault<Scene> {
  return (scene) => {
    const key = scene.random.pick(scene.random.chance(0.6) ? HOT_KEYS : WARM_KEYS);
    return act(scene, { key, lock: `lock:{${key}}`, admin: masterOf(key, scene.stage).admin });
  };
}
