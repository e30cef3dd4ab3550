import { setTimeout as sleep } from 'node:timers/promises';
import { spreadOf, spreadsOf } from '../measure/statistics.js';
import { withServices, type WorkerProcess } from '../worker/worker-process.js';
import { limit, type Scenario } from './scenario.js';

const PROCESSES = 10;
const WAITERS = 1_000;
const WATCHED_MS = 2_000;

export const waiters: Scenario = {
  id: 'waiters',
  title: '10,000 waiters on one key in 10 processes',
  what: '1,000 callers in each of 10 processes wait for a held key, which is then released. Figures are for one process.',
  isQuick: false,
  run: ({ url }) =>
    withServices(1 + PROCESSES, { url, leaseMs: 30_000 }, async ([holder, ...crowd]) => {
      const all = <T>(act: (worker: WorkerProcess) => Promise<T>): Promise<T[]> =>
        Promise.all(crowd.map(act));
      const wait = async (count: number): Promise<void> => {
        const keys = Array.from({ length: count }, () => 'waiters');
        await holder.do('takeMany', { keys: ['waiters'] });
        await all((worker) => worker.do('startWaiting', { keys }));
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
      const served = performance.now() - servedFrom;
      await sleep(1_000);
      const after = await all((worker) => worker.do('footprint'));
      const cpuAfter = await all((worker) => worker.do('idle', { ms: WATCHED_MS }));

      const more = (of: 'heapBytes' | 'timers', to: typeof before): number[] =>
        to.map((size, n) => (size[of] - (before[n]?.[of] ?? NaN)) / WAITERS);
      const share = (cpuMs: readonly number[]): number[] => cpuMs.map((ms) => ms / WATCHED_MS);
      const timers = more('timers', during);
      const cpu = share(cpuWaiting);
      const heapLeft = more('heapBytes', after);
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
            values: spreadsOf({ heap: more('heapBytes', during), timers, cpu }),
          },
          {
            name: 'afterwards',
            values: spreadsOf({
              heap: heapLeft,
              timers: more('timers', after),
              cpu: share(cpuAfter),
              served,
            }),
          },
        ],
        goals: [
          {
            id: 'waiters-timers',
            text: 'Timers per waiter, of 10,000',
            ...limit(1),
            value: spreadOf(timers),
          },
          {
            id: 'waiters-heap',
            text: 'Heap left per waiter, bytes',
            ...limit(100),
            value: spreadOf(heapLeft),
          },
          {
            id: 'waiters-cpu',
            text: 'Share of a core that a process with 1,000 waiters uses',
            ...limit(0.02),
            value: spreadOf(cpu),
          },
        ],
      };
    }),
};
