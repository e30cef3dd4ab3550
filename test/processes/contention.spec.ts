import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../support/eventually.js';
import {
  contendedRuns,
  expectExclusive,
  inOrder,
  type ProcessHold,
  type Run,
} from '../support/hold-history.js';
import { LockObserver } from '../support/lock-observer.js';
import { LockProcess, type LockProcessOptions } from '../support/lock-process.js';
import { useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 2_000;
const PROCESSES = 5;
/** Much longer than a command takes to reach Redis, where its arrival determines its position in the queue. */
const ASKED_APART_MS = 200;

afterAll(() => LockProcess.endAll());
const server = useRedisServer();
const observer = new LockObserver(server);

beforeAll(async () => {
  await start(PROCESSES); // all tests reuse them
  await LockProcess.closeAll();
});

afterEach(() => LockProcess.closeAll());

describe('a counter that processes increase under the lock', () => {
  it.each([2, 3, PROCESSES])(
    'by %i processes ends exact, one hold at a time [D121, G1]',
    async (count) => {
      const racers = await start(count);

      const { holds, total, counted } = await race(racers, {
        callers: 4,
        times: Math.ceil(200 / count),
      });

      expect(counted).toBe(total);
      expect(holds).toHaveLength(total);
      expect(holds.filter(({ lost }) => lost)).toEqual([]);
      expectExclusive(holds);
    },
  );

  it('leaves only the fence in Redis, and nothing in the processes', async () => {
    const racers = await start(3);
    const { key } = await race(racers, { callers: 4, times: 20 });

    await observer.nothingLeft(key);
    for (const racer of racers) {
      await eventually(async () =>
        expect(await racer.call('residue')).toEqual({ queues: 0, tokens: 0, timers: 0 }),
      );
    }
  });

  it('by holders of many keys at once: keys do not disturb each other', async () => {
    const racers = await start(3);

    const races = await Promise.all(
      Array.from({ length: 10 }, () => race(racers, { callers: 2, times: 10 })),
    );

    for (const { holds, total, counted } of races) {
      expect(counted).toBe(total);
      expectExclusive(holds);
    }
  });
});

describe('order', () => {
  it('with localHandovers 0, processes enter in the order in which they asked', async () => {
    const all = await start(PROCESSES, { localHandovers: 0 });
    const key = uniqueKey();
    const holder = all[0]!.hold(key);
    await holder.entered;

    const attempts = [];
    for (const [i, waiter] of all.slice(1).entries()) {
      attempts.push(waiter.hold(key, { ms: 5 }));
      await observer.waiting(key, i + 1);
    }
    // This call comes last, although its process holds the lock.
    const late = all[0]!.hold(key, { ms: 5 });
    await holder.release();

    const holds = await Promise.all([...attempts, late].map(({ ended }) => ended));
    expectExclusive([await holder.ended, ...holds]);
  });

  it('with localHandovers 0, callers enter in the order in which they asked, in whatever process', async () => {
    const all = await start(3, { localHandovers: 0 });
    const key = uniqueKey();
    const holder = all[0]!.hold(key);
    await holder.entered;

    const attempts = [];
    for (const process of [0, 1, 0, 2, 1, 1, 0, 2]) {
      attempts.push(all[process]!.hold(key, { ms: 5 }));
      await all[process]!.call('residue'); // its request has been sent
      await sleep(ASKED_APART_MS);
    }
    await holder.release();

    const holds = await Promise.all(attempts.map(({ ended }) => ended));
    expectExclusive([await holder.ended, ...holds]);
  });

  it('with one local hand-over, processes with many callers take turns of two holds at most', async () => {
    const { holds } = await race(await start(2, { localHandovers: 1 }), {
      callers: 3,
      times: 30,
    });

    expectExclusive(holds);
    const runs = contendedRuns(holds);
    expect(runs.length).toBeGreaterThan(25);
    expect(runs.filter((run) => run.holds.length > 2)).toEqual([]);
  });

  it('the callers of one process enter in the order in which they asked', async () => {
    const [only] = await start(1);
    const key = uniqueKey();
    const holder = only!.hold(key);
    await holder.entered;

    const attempts = Array.from({ length: 20 }, () => only!.hold(key, { ms: 0 }));
    await holder.release();

    const holds = await Promise.all(attempts.map(({ ended }) => ended));
    expectExclusive([await holder.ended, ...holds]);
  });
});

describe('fairness', () => {
  it('with the defaults no process starves: between two turns of one, every other has at most a few', async () => {
    const { holds } = await race(await start(PROCESSES), {
      callers: 4,
      times: 30,
      pauseMs: 0,
    });

    const runs = contendedRuns(holds);
    expectExclusive(holds);
    expect(new Set(runs.map(({ process }) => process)).size).toBe(PROCESSES);
    // In strict rotation, each of the others has one run in between. A process that is not scheduled in time is
    // skipped.
    expect(longestPauseInRuns(runs)).toBeLessThanOrEqual(3 * (PROCESSES - 1));
  });

  it('localHandovers bounds how many callers of one process follow each other', async () => {
    const localHandovers = 3;
    const { holds } = await race(await start(2, { localHandovers }), { callers: 8, times: 20 });

    const runs = contendedRuns(holds);
    expect(runs.length).toBeGreaterThan(10);
    expect(Math.max(...runs.map((run) => run.holds.length))).toBe(localHandovers + 1);
  });

  it('local hand-overs stop 100 ms after another process has asked, however many are allowed [R17]', async () => {
    const [first, second] = await start(2, { localHandovers: 1_000_000, waitMs: 60_000 });
    const key = uniqueKey();
    const holdMs = 5;
    const locals = Array.from({ length: 2_000 }, () => first!.hold(key, { ms: holdMs }));
    await locals[0]!.entered;

    const remote = second!.hold(key, { ms: 0 });
    const { asked, entered } = await remote.ended;
    await first!.kill(); // most of its calls are still queued

    // 10 s of work were queued locally, but only a little of it came first.
    expect(entered - asked).toBeGreaterThan(100 - 2 * holdMs);
    expect(entered - asked).toBeLessThan(2_000);
  });

  it('alone, a process passes the lock on for as long as it likes', async () => {
    const [only] = await start(1, { localHandovers: 0 });
    const key = uniqueKey();
    const holder = only!.hold(key);
    await holder.entered;
    const token = await observer.holder(key);

    const last = Array.from({ length: 20 }, () => only!.hold(key, { ms: 0 })).at(-1)!;
    const untilReleased = only!.hold(key);
    await holder.release();
    await last.ended;
    await untilReleased.entered;

    expect(await observer.holder(key)).toBe(token);
    await untilReleased.release();
  });
});

function start(
  count: number,
  options: Omit<LockProcessOptions, 'redisUrl'> = {},
): Promise<LockProcess[]> {
  return LockProcess.startMany(count, { redisUrl: server.url, leaseMs: LEASE_MS, ...options });
}

interface RaceOptions {
  callers: number;
  times: number;
  pauseMs?: number;
}

interface RaceResult {
  key: string;
  /** The expected number of holds. */
  total: number;
  /** The final value of the counter. */
  counted: number;
  holds: ProcessHold[];
}

async function race(
  racers: readonly LockProcess[],
  { callers, times, pauseMs = 1 }: RaceOptions,
): Promise<RaceResult> {
  const key = uniqueKey();
  const counter = `counter:${key}`;
  const order = { key, counter, callers, times, pauseMs };
  const records = await Promise.all(racers.map((racer) => racer.call('race', order)));
  return {
    key,
    total: racers.length * callers * times,
    counted: Number(await server.admin.get(counter)),
    holds: inOrder(records),
  };
}

/** The largest number of runs of other processes between two runs of the same process. */
function longestPauseInRuns(runs: readonly Run[]): number {
  const lastRun = new Map<number, number>();
  let longest = 0;
  runs.forEach(({ process }, i) => {
    const previous = lastRun.get(process);
    if (previous !== undefined) longest = Math.max(longest, i - previous - 1);
    lastRun.set(process, i);
  });
  return longest;
}
