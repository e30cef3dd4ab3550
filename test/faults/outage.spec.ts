/** Redis is unavailable or silent for a long time while the application keeps requesting locks. */
import { describe, expect } from '@jest/globals';
import type { Redis } from 'ioredis';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { fault } from '../support/fault-report.js';
import { openAdmin, openLocks } from '../support/open-locks.js';
import { startRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const WORKER = fileURLToPath(new URL('./outage-worker.mjs', import.meta.url));
/**
 * A command times out after 500 ms. An outage of 8 s lasts 16 such time-outs, as one of 80 s does with the default
 * lease.
 */
const LEASE_MS = 1_500;
const OUTAGE_MS = 8_000;
/** How many commands may be in flight, and how many more may wait. */
const MOST = 1_000;

interface Asked {
  readonly asked: number;
  /** In MB, sampled twice a second. */
  readonly heap: readonly number[];
  /** The number of calls for each outcome. */
  readonly kinds: Readonly<Record<string, number>>;
}

/** Makes the calls in a separate process, so that its heap contains nothing else. */
async function start() {
  const server = await startRedisServer();
  const worker = fork(WORKER, [server.url, String(LEASE_MS)], { execArgv: ['--expose-gc'] });
  afterTest(async () => {
    if (worker.exitCode === null && worker.kill()) await once(worker, 'exit');
  });
  const answer = async (): Promise<unknown> => ((await once(worker, 'message')) as [unknown])[0];
  const request = (task: number | 'acquire'): Promise<unknown> => {
    worker.send(task);
    return answer();
  };
  expect(await answer()).toBe('open');
  return {
    server,
    ask: (ms: number) => request(ms) as Promise<Asked>,
    acquire: () => request('acquire'),
  };
}

/** How many scripts the server has executed. */
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
    'the memory is flat, no old command is executed afterwards, and calls are served at once',
    async (measure) => {
      const { server, ask, acquire } = await start();
      await server.kill();
      const { asked, heap, kinds } = await ask(OUTAGE_MS);
      expect(kinds).toEqual({ unknown: asked });
      expect(growth(heap)).toBeLessThan(5);

      await server.restart();
      const from = performance.now();
      await eventually(async () => expect(await acquire()).toBe('granted'));
      const ms = performance.now() - from;
      const run = await scriptsRun(openAdmin(server.url));
      expect(run).toBeLessThan(20);
      measure('calls', asked);
      measure('growth of the heap', growth(heap), 'MB');
      measure('scripts run afterwards', run);
      measure('served', ms, 'ms after the restart');
    },
  );

  fault(
    'is silent for eight seconds',
    'the memory is flat, and Redis finds only the commands in flight when it fell silent',
    async (measure) => {
      const { server, ask, acquire } = await start();
      const admin = openAdmin(server.url);
      const before = await scriptsRun(admin);
      server.pause();
      afterTest(() => server.resume());
      const { asked, heap, kinds } = await ask(OUTAGE_MS);
      expect(kinds).toEqual({ unknown: asked });
      expect(growth(heap)).toBeLessThan(5);

      server.resume();
      const from = performance.now();
      await eventually(async () => expect(await acquire()).toBe('granted'));
      const ms = performance.now() - from;
      const run = (await scriptsRun(admin)) - before;
      expect(run).toBeLessThan(MOST + 20);
      measure('calls', asked);
      measure('growth of the heap', growth(heap), 'MB');
      measure('scripts run afterwards', run);
      measure('served', ms, 'ms after it woke up');
    },
  );
});

describe('a call that ends while Redis is silent for longer than its lease', () => {
  const leaseMs = 3_000;

  /** Silences Redis during a call. Afterwards, a single try of another process must succeed. */
  async function passes(isHeld: boolean, waitMs: number): Promise<void> {
    const server = await startRedisServer();
    const options = { leaseMs };
    const [one, other] = [
      await openLocks(server.url, options),
      await openLocks(server.url, options),
    ];
    const admin = openAdmin(server.url);
    const key = uniqueKey();
    let ended: Promise<unknown> | undefined;
    const call = (): void => {
      ended = expect(one.engine.acquire(key, { waitMs })).rejects.toMatchObject({
        code: 'LOCK_STORE_FAILED',
      });
    };
    if (isHeld) {
      await other.engine.acquire(key, { renew: false }); // not renewed, so it expires
      call();
      await eventually(async () => expect(await admin.zcard(`lock:{${key}}:queue`)).toBe(1));
    }
    server.pause();
    afterTest(() => server.resume());
    const paused = sleep(2 * leaseMs);
    if (!isHeld) call();
    // Makes the process notice the silence before the wait ends, so that it sends no last attempt.
    else await expect(one.engine.tryAcquire(uniqueKey())).rejects.toThrow();
    await ended;
    await paused;
    server.resume();
    for (const { engine } of [one, other]) await eventually(() => engine.ping());
    await eventually(async () => {
      expect(await admin.exists(`lock:{${key}}`, `lock:{${key}}:queue`)).toBe(0);
    }, leaseMs / 2); // a grant that Redis makes when it resumes would last for a lease
    expect(await other.engine.tryAcquire(key)).not.toBe(null);
  }

  fault('while it waits', 'leaves no entry in the queue, so that a single try succeeds', () =>
    passes(true, 2_500),
  );

  fault('while it asks', 'leaves no lease, so that a single try succeeds', () =>
    passes(false, 300),
  );
});
