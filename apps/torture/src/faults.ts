import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisServer } from 'dev-servers';
import type { Redis } from 'ioredis';
import { monotonicMs, type HistoryFile } from './history.js';
import type { SeededRandom } from './seeded-random.js';
import { LEASE_MS } from './task.js';
import type { WorkerProcess } from './worker-process.js';

export interface Scene {
  readonly random: SeededRandom;
  readonly history: HistoryFile;
  readonly server: RedisServer;
  readonly admin: Redis;
  readonly keys: readonly string[];
  /** The workers that run now; a killed one is replaced. */
  readonly workers: () => WorkerProcess[];
  readonly replace: (worker: WorkerProcess) => Promise<void>;
}

type Fault = (scene: Scene) => Promise<void>;

/** After the store forgot, a holder may not know for so long: reconnecting, then one renewal. */
const NOTICE_MS = LEASE_MS + 2_000;

export const FAULTS: Readonly<Record<string, Fault>> = {
  'worker killed': async ({ random, history, workers, replace }) => {
    const victim = random.pick(workers());
    await victim.kill(history);
    await replace(victim);
  },
  'worker paused': async ({ random, workers }) => {
    const victim = random.pick(workers());
    victim.pause();
    await sleep(random.between(50, LEASE_MS * 3));
    victim.resume();
  },
  'redis paused': async ({ random, server }) => {
    server.pause();
    await sleep(random.between(50, LEASE_MS * 2));
    server.resume();
  },
  'redis restarted empty': async ({ random, server, history }) => {
    const at = monotonicMs();
    await server.kill();
    await sleep(random.between(0, 300));
    await server.restart();
    history.append({ kind: 'wiped', at, until: monotonicMs() + NOTICE_MS });
  },
  'inboxes cut': async ({ admin }) => {
    await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
  },
  'command connections cut': async ({ admin }) => {
    await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
  },
  'scripts flushed': async ({ admin }) => {
    await admin.script('FLUSH');
  },
  'key deleted by an operator': async ({ random, admin, keys, history }) => {
    const at = monotonicMs();
    await admin.del(`lock:{${random.pick(keys)}}`);
    history.append({ kind: 'wiped', at, until: monotonicMs() + NOTICE_MS });
  },
};
