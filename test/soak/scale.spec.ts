import { beforeAll, describe, expect } from '@jest/globals';
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { fault } from '../support/fault-report.js';
import { openAdmin } from '../support/open-locks.js';
import { useRedisServer } from '../support/own-redis.js';

const WORKER = fileURLToPath(new URL('./scale-worker.mjs', import.meta.url));
const MEGABYTE = 2 ** 20;
const NOTHING_LEFT = { queues: 0, tokens: 0, timers: 0 };

interface Size {
  readonly memory: number;
  readonly listeners: number;
}

interface Tries {
  got: number;
  failed: number;
  ms: number;
  before: Size;
  after: Size;
  residue: object;
}

interface Results {
  'try-locks': Tries;
  'try-locks-memory': Tries;
  wait: {
    refused: boolean;
    waited: number;
    before: Size;
    during: Size;
    after: Size;
    residue: object;
  };
  silence: {
    kept: number;
    lost: number;
    scripts: number;
    log: string[];
    warn: string[];
    error: string[];
  };
  hold: {
    kept: number;
    lost: number;
    released: number;
    timers: number;
    during: { queues: number; timers: number };
    residue: object;
    delayP99: number;
    delayMax: number;
    scripts: number;
    cpuMs: number;
    renewals: number;
    singleCpuMs: number;
  };
}

const server = useRedisServer();
/** Work on the other server must not be affected while this one stands still. */
const silent = useRedisServer();
/** These take long and do next to nothing, so the other tests run meanwhile. */
let waiting: Promise<Results['wait']>;
let silence: Promise<Results['silence']>;

/** Set by `npm run faults -- --long`: what takes minutes is then done in full. */
const isLong = process.env['FAULTS_LONG'] === '1';
const LOCKS = isLong ? 10_000 : 3_000;
const WAIT_MS = isLong ? 180_000 : 20_000;
const TRIES = isLong ? 1_000_000 : 20_000;
const TRIES_IN_MEMORY = isLong ? 1_000_000 : 20_000;

beforeAll(async () => {
  const admin = openAdmin(server.url);
  // Held by a process with this library that never comes back, so that there are only timers, and no message.
  await admin.set('lock:{scale:kept}', `${'0'.repeat(32)}:1`, 'PX', 600_000);
  waiting = run('wait', WAIT_MS);
  silence = run('silence', LOCKS, silent.url);
  for (const running of [waiting, silence]) running.catch(() => {}); // checked by its test
});

describe('trying', () => {
  const stores = [
    ['try-locks', TRIES, 'single tries'],
    ['try-locks-memory', TRIES_IN_MEMORY, 'single tries of locks in memory'],
  ] as const;
  for (const [task, total, what] of stores) {
    fault(
      `${total.toLocaleString('en')} ${what}`,
      'memory and listeners flat [D134]',
      async (measure) => {
        const { got, failed, ms, before, after, residue } = await run(task, total);

        expect(failed).toBeLessThan(total / 100); // a busy machine may stand still for a second
        expect(got).toBeGreaterThan(total / 4);
        expect(after.listeners).toBe(before.listeners);
        expect(after.memory - before.memory).toBeLessThan(5 * MEGABYTE); // 250 bytes a try or less
        expect(residue).toEqual(NOTHING_LEFT);
        measure('heap grew by', (after.memory - before.memory) / MEGABYTE, 'MB');
        measure('listeners', `${before.listeners} → ${after.listeners}`);
        measure('not answered in time', failed);
        measure('tries per second', (total / ms) * 1_000);
      },
      isLong ? 900_000 : undefined,
    );
  }
});

describe('many locks', () => {
  fault(
    `${LOCKS.toLocaleString('en')} locks held for three leases`,
    'all kept, one scheduler, p99 < 20 ms and a tenth of the CPU of a script per lock (aims) [D123]',
    async (measure) => {
      const total = LOCKS;
      const held = await run('hold', total);

      expect(held).toMatchObject({ kept: total, lost: 0, released: total });
      expect(held.residue).toEqual(NOTHING_LEFT);
      // One timer for all of them; some more belong to the connections and the test itself.
      expect(held.timers).toBeLessThan(20);
      // A hundred to a script, and a few more between two rounds.
      expect(held.scripts).toBeGreaterThan(0);
      expect(held.scripts).toBeLessThan(held.renewals / 10);
      expect(held.delayP99).toBeLessThan(500);
      const cpuUs = (held.cpuMs / held.renewals) * 1_000;
      const singleUs = held.singleCpuMs * 1_000;
      expect(cpuUs).toBeLessThan(3 * singleUs);
      measure('event loop delay p99', held.delayP99, 'ms');
      measure('max', held.delayMax, 'ms');
      measure('server CPU per renewal', cpuUs, 'µs');
      measure('with one script per lock', singleUs, 'µs');
      measure('renewals per script', held.renewals / held.scripts);
      measure('timers of the process', held.timers);
    },
  );
});

describe('many locks while Redis stands still', () => {
  fault(
    `${LOCKS.toLocaleString('en')} locks with a lease of 24 s, and Redis stands still for 9 s`,
    'all kept, renewed once more, and logged as one outage',
    async (measure) => {
      const total = LOCKS;
      const { kept, lost, scripts, log, warn, error } = await silence;
      expect({ kept, lost }).toEqual({ kept: total, lost: 0 });
      // Those that were in the socket when it was left, and the same again on the new connection.
      expect(scripts).toBeGreaterThanOrEqual(total / 100);
      expect(scripts).toBeLessThan(5 * (total / 100));
      // Messages may be missing as well, which is reported on its own, and an outage is reported again if its reason
      // changes.
      expect(log.filter((line) => line.startsWith('Redis is back')).length).toBeLessThanOrEqual(1);
      expect(log.length).toBeLessThanOrEqual(2);
      // Only a replaced connection, if Redis was back within the limit of a command.
      expect(log.length + warn.length).toBeGreaterThanOrEqual(1);
      expect(warn.length + error.length).toBeLessThan(8);
      measure('scripts', scripts);
    },
  );
});

describe('waiting', () => {
  fault(
    `a wait of ${WAIT_MS / 1_000} s`,
    'memory and listeners flat [D134]',
    async (measure) => {
      const { refused, waited, before, during, after, residue } = await waiting;

      expect(refused).toBe(true);
      expect(waited).toBeGreaterThan(WAIT_MS - 1_000);
      expect(waited).toBeLessThan(WAIT_MS + 5_000);
      expect(after.listeners).toBe(before.listeners);
      expect(during.listeners).toBe(before.listeners);
      expect(after.memory - before.memory).toBeLessThan(2 * MEGABYTE);
      expect(during.memory - before.memory).toBeLessThan(2 * MEGABYTE);
      expect(residue).toEqual(NOTHING_LEFT);
      measure('heap grew by', (after.memory - before.memory) / MEGABYTE, 'MB');
      measure('listeners', `${before.listeners} → ${after.listeners}`);
    },
    WAIT_MS + 60_000,
  );
});

async function run<Task extends keyof Results>(
  task: Task,
  count: number,
  url = server.url,
): Promise<Results[Task]> {
  const { stdout, stderr } = await promisify(execFile)(
    process.execPath,
    ['--expose-gc', WORKER, task, url, String(count)],
    { maxBuffer: 2 ** 26 },
  );
  expect(stderr.slice(0, 1_000)).toBe('');
  const [result = ''] = stdout.trimEnd().split('\n').slice(-1); // before it, warnings of a busy machine
  return JSON.parse(result) as Results[Task];
}
