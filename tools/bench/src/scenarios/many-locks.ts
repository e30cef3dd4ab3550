/** What very many locks of one process cost. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { ServerStatistics } from '../measure/server-statistics.js';
import { ratioOf, spreadOf, spreadsOf } from '../measure/statistics.js';
import { withServices, type WorkerProcess } from '../worker/worker-process.js';
import { atMost, limit, type Scenario } from './scenario.js';

const LOCKS = 10_000;
const LEASE_MS = 4_000;
/** A lease is renewed three times while it lasts. */
const RENEWAL_MS = LEASE_MS / 3;
const ROUNDS = 3;
/** How many are renewed one by one for comparison. */
const ONE_BY_ONE = 2_000;

export const heldLocks: Scenario = {
  id: 'held-locks',
  title: '10,000 held locks',
  what: 'One process holds 10,000 keys with a lease of 4 s. Server CPU per renewal, less that of an idle server, is compared with one owner-checked PEXPIRE script per lock.',
  isQuick: false,
  run: ({ url, server }) =>
    withServices(1, { url, leaseMs: LEASE_MS }, async ([worker]) => {
      const before = await footprint(worker, server);
      const idleFrom = await server.cpuUs();
      await sleep(3 * RENEWAL_MS);
      const idle = (await server.cpuUs()) - idleFrom;
      await worker.do('takeMany', { keys: Array.from({ length: LOCKS }, (_, n) => `held:${n}`) });
      const during = await footprint(worker, server);

      const renewals: number[] = [];
      await sleep(RENEWAL_MS); // the first renewals come while the last locks are being taken
      for (let round = 0; round < ROUNDS; round += 1) {
        const from = await server.cpuUs();
        await sleep(3 * RENEWAL_MS);
        renewals.push(((await server.cpuUs()) - from - idle) / (3 * LOCKS));
      }
      const kept = await worker.do('releaseMany');
      if (kept !== LOCKS) throw new Error(`${LOCKS - kept} of ${LOCKS} held locks were lost`);

      const single: number[] = [];
      for (let round = 0; round < ROUNDS; round += 1) {
        single.push(await server.renewOneByOneUs(ONE_BY_ONE));
      }
      return {
        columns: [
          { id: 'renewal', title: 'server CPU per renewal', unit: 'µs' },
          { id: 'heap', title: 'heap per lock', unit: 'bytes' },
          { id: 'redis', title: 'in Redis per lock', unit: 'bytes' },
          { id: 'timers', title: 'timers of the process', unit: '' },
        ],
        rows: [
          {
            name: 'nestjs-locked',
            adapter: 'ours',
            values: spreadsOf({
              renewal: renewals,
              heap: (during.heapBytes - before.heapBytes) / LOCKS,
              redis: (during.redis - before.redis) / LOCKS,
              timers: during.timers,
            }),
          },
          { name: 'a command for each lock', values: spreadsOf({ renewal: single }) },
        ],
        goals: [
          {
            id: 'held-renewal',
            text: 'Server CPU for the renewal of 10,000 held locks, relative to a command for each lock',
            ...atMost(0.1),
            value: ratioOf(renewals, single),
          },
        ],
      };
    }),
};

const KEYS = 100_000;
const WATCHED_MS = 2_000;

export const distinctKeys: Scenario = {
  id: 'distinct-keys',
  title: '100,000 distinct keys, taken and released',
  what: 'One process takes and releases 100,000 keys once each. Redis keeps one fencing number for all of them.',
  isQuick: false,
  run: ({ url, server }) =>
    withServices(1, { url, leaseMs: 30_000 }, async ([worker]) => {
      const before = await footprint(worker, server);
      await worker.do('takeAndReleaseMany', { prefix: 'distinct', count: KEYS });
      await sleep(1_000);
      const after = await footprint(worker, server);
      const cpuMs = await worker.do('idle', { ms: WATCHED_MS });
      const heap = (after.heapBytes - before.heapBytes) / KEYS;
      return {
        columns: [
          { id: 'heap', title: 'heap left per key', unit: 'bytes' },
          { id: 'timers', title: 'timers left', unit: '' },
          { id: 'cpu', title: 'share of a core afterwards', unit: '' },
          { id: 'redis', title: 'in Redis per key', unit: 'bytes' },
        ],
        rows: [
          {
            name: 'nestjs-locked',
            adapter: 'ours',
            values: spreadsOf({
              heap,
              timers: after.timers - before.timers,
              cpu: cpuMs / WATCHED_MS,
              redis: (after.redis - before.redis) / KEYS,
            }),
          },
        ],
        goals: [
          {
            id: 'distinct-heap',
            text: 'Heap left per key, of 100,000, bytes',
            ...limit(10),
            value: spreadOf([heap]),
          },
        ],
      };
    }),
};

async function footprint(worker: WorkerProcess, server: ServerStatistics) {
  return { ...(await worker.do('footprint')), redis: await server.usedMemory() };
}
