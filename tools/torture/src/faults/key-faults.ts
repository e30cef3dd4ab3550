import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { monotonicMs } from '../history/monotonic-ms.js';
import { ALL_KEYS, HOT_KEYS, WARM_KEYS } from '../keys.js';
import { masterOf } from '../servers/stage.js';
import { type Fault, noted, type Scene } from './fault.js';
import { someWorker } from './worker-faults.js';

/** What can happen to one key. */
export const KEY_FAULTS = {
  'key deleted': async (scene) => {
    const key = pick(scene);
    const effects = { disturbs: { key }, forgets: { key }, notice: 'renewal' } as const;
    const { admin } = masterOf(key, scene.stage);
    await noted(scene, 'key deleted', effects, () => admin.del(lockOf(key)));
  },
  'key overwritten': async (scene) => {
    const key = pick(scene);
    const effects = { disturbs: { key }, forgets: { key }, notice: 'renewal' } as const;
    const token = `somebody else ${randomBytes(4).toString('hex')}`;
    const leaseMs = 2_000;
    const { admin } = masterOf(key, scene.stage);
    const setAt = monotonicMs();
    await noted(scene, 'key overwritten', effects, () =>
      admin.set(lockOf(key), token, 'PX', leaseMs),
    );
    const at = monotonicMs();
    await sleep(scene.random.between(50, 700));
    // It lasts from when it was set, less the difference that the clocks of two programs may have.
    const until = Math.min(monotonicMs(), setAt + leaseMs - 50);
    const call = `foreign/${token}`;
    scene.history.append({ kind: 'foreign', at, call, key, until, leaseMs });
    await admin.eval(DELETE_OWN, 1, lockOf(key), token);
  },
  'released by an operator': async (scene) => {
    someWorker(scene)?.tell({ do: 'force release', key: scene.random.pick(ALL_KEYS) });
  },
  /** A crowd of processes that stood in the queue and died. It must not keep the living waiting. */
  'dead waiters': async (scene) => {
    const key = pick(scene);
    const { admin } = masterOf(key, scene.stage);
    await noted(scene, 'dead waiters', { disturbs: 'nothing' }, async () => {
      const [seconds, micros] = await admin.time();
      const now = Number(seconds) * 1e6 + Number(micros);
      const dead = Array.from({ length: 150 }, (_, n) => [
        now - 1_000 + n,
        `${randomBytes(16).toString('hex')}:1`,
      ]);
      await admin.zadd(`${lockOf(key)}:queue`, ...dead.flat());
      await admin.pexpire(`${lockOf(key)}:queue`, 60_000);
    });
  },
} satisfies Record<string, Fault>;

const DELETE_OWN = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end`;

function pick({ random }: Scene): string {
  return random.pick(random.chance(0.6) ? HOT_KEYS : WARM_KEYS);
}

function lockOf(key: string): string {
  return `lock:{${key}}`;
}
