import { setTimeout as sleep } from 'node:timers/promises';
import { spreadOf } from '../measure/statistics.js';
import { WorkerProcess } from '../worker/worker-process.js';
import type { Scenario } from './scenario.js';

const PROCESSES = 10;
const WAITERS = 1_000;
const LEASE_MS = 30_000;
const WATCHED_MS = 2_000;

export const waiters: Scenario = {
  id: 'waiters',
  title: '10,000 waiters on one key in 10 processes',
  what: '1,000 callers in each of 10 processes wait for a held key, which is then released. Figures are for one process.',
  isQuick: false,
  async run({ url }) {
    const holder = WorkerProcess.start();
    const crowd = Array.from({ length: PROCESSES }, () => WorkerProcess.start());
    const all = <T>(act: (worker: WorkerProcess) => Promise<T>): Promise<T[]> =>
      Promise.all(crowd.map(act));
    try {
      await Promise.all(
        [holder, ...crowd].map((worker) => worker.do('openService', { url, leaseMs: LEASE_MS })),
      );
      const wait = async (count: number): Promise<void> => {
        await holder.do('takeMany', { prefix: 'waiters', count: 1 });
        await all((worker) => worker.do('startWaiting', { key: 'waiters:0', count }));
        await sleep(1_000);
      };
      const serve = async (): Promise<void> => {
        await holder.do('releaseMany');
        await all((worker) => worker.do('allServed'));
      };

      await wait(100); // what is compiled or allocated once is not to be counted
      await serve();
      const before = await all((worker) => worker.do('footprint'));
      await wait(WAITERS);
      const during = await all((worker) => worker.do('footprint'));
      const cpuWaiting = await all((worker) => worker.do('idle', { ms: WATCHED_MS }));
      const servedFrom = performance.now();
      await serve();
      const servedMs = performance.now() - servedFrom;
      await sleep(1_000);
      const after = await all((worker) => worker.do('footprint'));
      const cpuAfter = await all((worker) => worker.do('idle', { ms: WATCHED_MS }));

      const differences = (of: 'heapBytes' | 'timers', to: typeof before): number[] =>
        to.map((size, n) => (size[of] - (before[n]?.[of] ?? NaN)) / WAITERS);
      const share = (cpuMs: readonly number[]): number[] => cpuMs.map((ms) => ms / WATCHED_MS);
      return {
        columns: [
          { id: 'heap', title: 'heap per waiter', unit: 'bytes' },
          { id: 'timers', title: 'timers per waiter', unit: '' },
          { id: 'cpu', title: 'share of a core', unit: '' },
          { id: 'served', title: 'all served in', unit: 'ms' },
        ],
        rows: [
          {
            name: 'while they wait',
            values: {
              heap: spreadOf(differences('heapBytes', during)),
              timers: spreadOf(differences('timers', during)),
              cpu: spreadOf(share(cpuWaiting)),
            },
          },
          {
            name: 'afterwards',
            values: {
              heap: spreadOf(differences('heapBytes', after)),
              timers: spreadOf(differences('timers', after)),
              cpu: spreadOf(share(cpuAfter)),
              served: spreadOf([servedMs]),
            },
          },
        ],
        goals: [
          {
            id: 'waiters-timers',
            text: 'Timers per waiter, of 10,000',
            better: 'lower',
            aim: 1,
            isLimit: true,
            value: spreadOf(differences('timers', during)),
          },
          {
            id: 'waiters-heap',
            text: 'Heap left per waiter, bytes',
            better: 'lower',
            aim: 100,
            isLimit: true,
            value: spreadOf(differences('heapBytes', after)),
          },
          {
            id: 'waiters-cpu',
            text: 'Share of a core that a process with 1,000 waiters uses',
            better: 'lower',
            aim: 0.02,
            isLimit: true,
            value: spreadOf(share(cpuWaiting)),
          },
        ],
      };
    } finally {
      await Promise.all([holder, ...crowd].map((worker) => worker.end()));
    }
  },
};
