import { setTimeout as sleep } from 'node:timers/promises';
import { ratioOf, spreadOf } from '../measure/statistics.js';
import { WorkerProcess } from '../worker/worker-process.js';
import type { Scenario } from './scenario.js';

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
  what: 'One process holds 10,000 keys with a lease of 4 s. Server CPU per renewal is compared with one owner-checked PEXPIRE script per lock.',
  isQuick: false,
  async run({ url, server }) {
    const worker = WorkerProcess.start();
    try {
      await worker.do('openService', { url, leaseMs: LEASE_MS });
      const before = { ...(await worker.do('footprint')), redis: await server.usedMemory() };
      await worker.do('takeMany', { prefix: 'held', count: LOCKS });
      const during = { ...(await worker.do('footprint')), redis: await server.usedMemory() };

      const renewals: number[] = [];
      await sleep(RENEWAL_MS); // the first renewals come while the last locks are being taken
      for (let round = 0; round < ROUNDS; round += 1) {
        const from = await server.cpuUs();
        await sleep(3 * RENEWAL_MS);
        renewals.push(((await server.cpuUs()) - from) / (3 * LOCKS));
      }
      const kept = await worker.do('releaseMany');
      if (kept !== LOCKS) throw new Error(`${LOCKS - kept} of ${LOCKS} held locks were lost`);

      const single: number[] = [];
      for (let round = 0; round < renewals.length; round += 1) {
        single.push(await server.renewOneByOneUs(ONE_BY_ONE));
      }
      const perLock = (to: number, from: number): number => (to - from) / LOCKS;
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
            values: {
              renewal: spreadOf(renewals),
              heap: spreadOf([perLock(during.heapBytes, before.heapBytes)]),
              redis: spreadOf([perLock(during.redis, before.redis)]),
              timers: spreadOf([during.timers]),
            },
          },
          { name: 'a command for each lock', values: { renewal: spreadOf(single) } },
        ],
        goals: [
          {
            id: 'held-renewal',
            text: 'Server CPU for the renewal of 10,000 held locks, relative to a command for each lock',
            better: 'lower',
            aim: 0.1,
            value: ratioOf(renewals, single),
          },
        ],
      };
    } finally {
      await worker.end();
    }
  },
};
