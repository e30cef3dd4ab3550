/** Redis is away or silent for long, and the application does not stop asking. */
import { describe, expect } from '@jest/globals';
import type { Redis } from 'ioredis';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { fault } from '../support/fault-report.js';
import { openAdmin } from '../support/open-locks.js';
import { startRedisServer } from '../support/own-redis.js';

const WORKER = fileURLToPath(new URL('./outage-worker.mjs', import.meta.url));
/** A command is waited for 500 ms: an outage of eight seconds is as long for it as 80 s are with the default lease. */
const LEASE_MS = 1_500;
const OUTAGE_MS = 8_000;
/** So many commands may be on their way, and as many may wait. */
const MOST = 1_000;

interface Asked {
  readonly asked: number;
  /** In MB, twice a second. */
  readonly heap: readonly number[];
  /** How many got which kind of answer. */
  readonly kinds: Readonly<Record<string, number>>;
}

/** The calls come from a process of their own, so that its heap shows them alone. */
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
    60_000,
  );

  fault(
    'is silent for eight seconds',
    'the memory is flat, and it finds only what was on its way when it fell silent',
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
    60_000,
  );
});
