import { setTimeout as sleep } from 'node:timers/promises';
import { spreadOf } from '../measure/statistics.js';
import { WorkerProcess } from '../worker/worker-process.js';
import type { Scenario } from './scenario.js';

const KEYS = 100_000;
const WATCHED_MS = 2_000;

export const distinctKeys: Scenario = {
  id: 'distinct-keys',
  title: '100,000 distinct keys, taken and released',
  what: 'One process takes and releases 100,000 keys once each. Redis keeps each fencing number for `fenceKeepMs` (10 minutes).',
  isQuick: false,
  async run({ url, server }) {
    const worker = WorkerProcess.start();
    try {
      await worker.do('openService', { url, leaseMs: 30_000 });
      const before = { ...(await worker.do('footprint')), redis: await server.usedMemory() };
      await worker.do('takeAndReleaseMany', { prefix: 'distinct', count: KEYS });
      await sleep(1_000);
      const after = { ...(await worker.do('footprint')), redis: await server.usedMemory() };
      const cpuMs = await worker.do('idle', { ms: WATCHED_MS });
      const heap = spreadOf([(after.heapBytes - before.heapBytes) / KEYS]);
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
            values: {
              heap,
              timers: spreadOf([after.timers - before.timers]),
              cpu: spreadOf([cpuMs / WATCHED_MS]),
              redis: spreadOf([(after.redis - before.redis) / KEYS]),
            },
          },
        ],
        goals: [
          {
            id: 'distinct-heap',
            text: 'Heap left per key, of 100,000, bytes',
            better: 'lower',
            aim: 10,
            isLimit: true,
            value: heap,
          },
        ],
      };
    } finally {
      await worker.end();
    }
  },
};
