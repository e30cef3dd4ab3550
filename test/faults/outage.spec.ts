/** Redis is away or silent for long, and the application does not stop asking. */
import { describe, expect } from '@jest/globals';
import { RedisServer } from 'dev-servers';
import type { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { systemClock } from '../../libs/nestjs-locked/src/core/clock.js';
import { openRedis } from '../../libs/nestjs-locked/src/redis/open-redis.js';
import { RedisLockStore } from '../../libs/nestjs-locked/src/redis/redis-lock-store.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { fault } from '../support/fault-report.js';
import { openAdmin } from '../support/open-locks.js';
import { StoreEvents } from '../support/store-events.js';

/** A command is waited for 500 ms: an outage of eight seconds is as long for it as 80 s are with the default lease. */
const LEASE_MS = 1_500;
const OUTAGE_MS = 8_000;
const CALLS_PER_SECOND = 1_000;
/** So many commands may be on their way, and as many may wait. */
const MOST = 1_000;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

function usedMb(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed / 1e6;
}

async function start() {
  const server = await RedisServer.start();
  afterTest(() => server.stop());
  const redis = openRedis(server.url);
  const store = new RedisLockStore({
    client: redis.client,
    clock: systemClock,
    keyPrefix: 'lock:',
    leaseMs: LEASE_MS,
    closeClient: () => redis.close(),
  });
  await store.open(new StoreEvents());
  afterTest(() => store.close());
  let count = 0;
  const acquire = () =>
    store.acquire({
      name: `stock:${++count}`,
      token: `${store.processId}:${count}`,
      leaseMs: LEASE_MS,
      nowait: true,
    });
  await acquire();
  return { server, acquire };
}

/** Asks at the given rate. @returns the heap in MB, twice a second, and how many got no answer and which */
async function ask(acquire: () => Promise<{ kind: string }>, ms: number) {
  const heap: number[] = [];
  const kinds = new Map<string, number>();
  const from = performance.now();
  let asked = 0;
  for (let next = 500; performance.now() - from < ms;) {
    for (; asked < ((performance.now() - from) / 1_000) * CALLS_PER_SECOND; asked++) {
      void acquire().then(({ kind }) => kinds.set(kind, (kinds.get(kind) ?? 0) + 1));
    }
    await sleep(5);
    if (performance.now() - from < next) continue;
    heap.push(usedMb());
    next += 500;
  }
  return { asked, heap, kinds };
}

/** The scripts that were carried out. */
async function scriptsRun(admin: Redis): Promise<number> {
  const stats = await admin.info('commandstats');
  const counts = [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)];
  return counts.reduce((sum, [, calls]) => sum + Number(calls), 0);
}

function growth(heap: readonly number[]): number {
  const mean = (some: readonly number[]): number =>
    some.reduce((sum, value) => sum + value, 0) / some.length;
  return mean(heap.slice(-4)) - mean(heap.slice(2, 6));
}

describe('1,000 calls a second go on while Redis', () => {
  fault(
    'is killed for eight seconds',
    'the memory is flat, nothing old is carried out afterwards, and calls are served at once',
    async (measure) => {
      const { server, acquire } = await start();
      await server.kill();
      const { asked, heap, kinds } = await ask(acquire, OUTAGE_MS);
      await sleep(LEASE_MS / 3); // the last one is given up
      expect([...kinds.keys()]).toEqual(['unknown']);
      expect(kinds.get('unknown')).toBe(asked);
      expect(growth(heap)).toBeLessThan(5);

      await server.restart();
      const from = performance.now();
      await eventually(async () => expect(await acquire()).toMatchObject({ kind: 'granted' }));
      const ms = performance.now() - from;
      const run = await scriptsRun(openAdmin(server.url));
      expect(run).toBeLessThan(20);
      measure('calls', asked);
      measure('growth of the heap', growth(heap), 'MB');
      measure('scripts run afterwards', run);
      measure('served', ms, 'ms after the restart');
    },
    60_000,
  );

  fault(
    'is silent for eight seconds',
    'the memory is flat, and it finds only what was on its way when it fell silent',
    async (measure) => {
      const { server, acquire } = await start();
      const admin = openAdmin(server.url);
      const before = await scriptsRun(admin);
      server.pause();
      afterTest(() => server.resume());
      const { asked, heap, kinds } = await ask(acquire, OUTAGE_MS);
      await sleep(LEASE_MS / 3);
      expect([...kinds.keys()]).toEqual(['unknown']);
      expect(kinds.get('unknown')).toBe(asked);
      expect(growth(heap)).toBeLessThan(5);

      server.resume();
      const from = performance.now();
      await eventually(async () => expect(await acquire()).toMatchObject({ kind: 'granted' }));
      const ms = performance.now() - from;
      const run = (await scriptsRun(admin)) - before;
      expect(run).toBeLessThan(MOST + 20);
      measure('calls', asked);
      measure('growth of the heap', growth(heap), 'MB');
      measure('scripts run afterwards', run);
      measure('served', ms, 'ms after it woke up');
    },
    60_000,
  );
});
