import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { LockNotAcquiredError } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import { eventually } from '../support/eventually.js';
import { FaultProxy } from '../support/fault-proxy.js';
import { fault, type Measure } from '../support/fault-report.js';
import { expectExclusive, inOrder, type ProcessHold } from '../support/hold-history.js';
import { LockObserver } from '../support/lock-observer.js';
import { type Attempt, LockProcess, sharedNow } from '../support/lock-process.js';
import { openAdmin, openLocks } from '../support/open-locks.js';
import { useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

/** Commands time out after a third of it, and a waiter relies on messages for as long; acceptance leases last 1 s. */
const LEASE_MS = 3_000;
const SAFETY_MS = LEASE_MS / 3;
const ACCEPT_MS = 1_000;
/** Too long for a lease to expire during a test. */
const LONG_LEASE_MS = 60_000;
/** For tests that cut connections repeatedly: outlasts a renewal that fails a few times on a busy machine. */
const RACE_LEASE_MS = 2 * LEASE_MS;
const LONG_SAFETY_MS = 5_000;
/** Upper bound for what takes milliseconds on an idle machine. */
const SOON_MS = 5_000;
/** Much longer than a command takes to reach Redis, where its arrival determines its position in the queue. */
const ASKED_APART_MS = 200;

afterAll(() => LockProcess.endAll());
const server = useRedisServer();
const observer = new LockObserver(server);
let key: string;

beforeAll(async () => {
  await LockProcess.startMany(6, { redisUrl: server.url }); // all tests reuse them
  await LockProcess.closeAll();
});

beforeEach(() => {
  key = uniqueKey();
});

afterEach(() => LockProcess.closeAll());

describe('processes', () => {
  fault(
    'holder SIGKILLed with 50 waiters in 5 processes',
    'the next enters within one lease, order kept, nobody lost',
    async (measure) => {
      const [holder, ...waiters] = await LockProcess.startMany(6, {
        redisUrl: server.url,
        leaseMs: LEASE_MS,
        waitMs: 110_000,
        localHandovers: 0,
      });
      await holder!.hold(key).entered;
      const attempts: Attempt[][] = [];
      for (const [i, waiter] of waiters.entries()) {
        attempts.push(Array.from({ length: 10 }, () => waiter.hold(key, { ms: 1 })));
        await observer.waiting(key, i + 1);
        await sleep(ASKED_APART_MS);
      }

      await holder!.kill();
      const killed = sharedNow();
      const { earliest, latest } = await observer.leaseEnd(key);

      const records = await Promise.all(
        attempts.map((own) => Promise.all(own.map(({ ended }) => ended))),
      );
      const holds = inOrder(records);
      expect(holds).toHaveLength(50);
      expect(holds.filter(({ lost, released }) => lost !== undefined || !released)).toEqual([]);
      expectExclusive(holds);
      // Calls are served in the order of arrival, which is the order of the processes.
      const order = holds.map(({ process }) => process);
      expect(order).toEqual([...order].sort((a, b) => a - b));
      for (const own of records) expectExclusive(own);
      const [next] = holds;
      expect(next!.entered).toBeGreaterThanOrEqual(earliest);
      expect(next!.entered).toBeLessThan(latest + SOON_MS);
      expect(latest - killed).toBeLessThanOrEqual(LEASE_MS + 10);
      measure('entered', next!.entered - killed, `ms after the kill (lease ${LEASE_MS})`);
      measure('after the end of the lease', next!.entered - earliest, 'ms');
      measure('all 50 after', holds.at(-1)!.left - killed, 'ms');
      await observer.nothingLeft(key);
    },
  );
});

describe('during contention, again and again', () => {
  fault(
    'inbox connection killed',
    'no waiter waits past its own timers, no grant lost or doubled, no orphan key [R14]',
    async (measure) => {
      const admin = openAdmin(server.url);
      await race(
        server.url,
        async () => Number(await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')),
        measure,
      );
    },
  );

  fault(
    'command connection killed, with replies lost',
    'no waiter waits past its own timers, no grant lost or doubled, no orphan key [R2]',
    async (measure) => {
      const proxy = await FaultProxy.start(server.port);
      await race(proxy.url, async () => proxy.loseAnswers(), measure);
    },
  );
});

describe('a single message lost', () => {
  fault('the grant', 'bounded by the timer of the waiter [R13]', async (measure) => {
    const { proxy, near, far } = await nearAndFar();
    const lock = await near.engine.acquire(key);
    const waiting = far.engine.acquire(key, { waitMs: 30_000 });
    await observer.waiting(key, 1);

    const lost = proxy.loseMessage('g');
    expect(await lock.release()).toBe(true);
    const from = sharedNow();
    await lost;
    const next = await waiting;
    const ms = sharedNow() - from;

    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(next.isHeld).toBe(true);
    expect(await next.release()).toBe(true);
    await observer.nothingLeft(key);
    expect(ms).toBeLessThan(10 * SAFETY_MS);
    measure('entered after', ms, `ms of ${SAFETY_MS}`);
  });

  // Regression test: when a recheck was answered with the old token, the token that it had introduced remained.
  it('the grant: no token stays in the process', async () => {
    const { proxy, near, far } = await nearAndFar();
    const lock = await near.engine.acquire(key);
    const waiting = far.engine.acquire(key, { waitMs: 30_000 });
    await observer.waiting(key, 1);
    const lost = proxy.loseMessage('g');
    await lock.release();
    await lost;
    await (await waiting).release();
    await eventually(
      () => expect(far.engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 }),
      2_000,
    );
  });

  fault('"wanted"', 'bounded by the timer of the waiter [R18]', async (measure) => {
    // With this `lingerMs`, a process gives up an unused lease only after a message that the key is wanted.
    const { proxy, near, far } = await nearAndFar({
      leaseMs: LONG_LEASE_MS,
      lingerMs: LONG_LEASE_MS,
    });
    await far.engine.withLock(key, {}, () => {});
    expect(await observer.holder(key)).not.toBeNull();

    const lost = proxy.loseMessage('w');
    const from = sharedNow();
    const waiting = near.engine.acquire(key, { waitMs: 50_000 });
    await lost;
    const next = await waiting;
    const ms = sharedNow() - from;

    expect(await next.release()).toBe(true);
    expect(ms).toBeLessThan(4 * LONG_SAFETY_MS);
    measure('entered after', ms, `ms of ${LONG_SAFETY_MS}`);
  });

  fault('"you are the next"', 'bounded by the timer of the waiter [R12]', async (measure) => {
    const { proxy, near, far } = await nearAndFar();
    const [paused] = await LockProcess.startMany(1, { redisUrl: server.url, leaseMs: LEASE_MS });
    const lock = await near.engine.acquire(key);
    paused!.hold(key);
    await observer.waiting(key, 1);
    const waiting = far.engine.acquire(key, { waitMs: 30_000 });
    await observer.waiting(key, 2);
    paused!.pause();

    const lost = proxy.loseMessage('h');
    await lock.release();
    const from = sharedNow();
    await lost;
    const next = await waiting;
    const ms = sharedNow() - from;

    expect(ms).toBeGreaterThan(ACCEPT_MS / 2);
    expect(ms).toBeLessThan(10 * (ACCEPT_MS + SAFETY_MS));
    expect(await next.release()).toBe(true);
    measure('entered after', ms, `ms of ${ACCEPT_MS + SAFETY_MS} (the head was paused)`);
  });
});

describe('a grant crosses', () => {
  fault('an abort, and never arrives', 'handed on', async (measure) => {
    const { proxy, near, far } = await nearAndFar({ leaseMs: LONG_LEASE_MS });
    const controller = new AbortController();
    const lock = await near.engine.acquire(key);
    const given = far.engine.acquire(key, { signal: controller.signal });
    const refused = expect(given).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    await observer.waiting(key, 1);
    const third = await openLocks(server.url, { leaseMs: LONG_LEASE_MS });
    const waiting = third.engine.acquire(key);
    await observer.waiting(key, 2);

    const lost = proxy.loseMessage('g');
    await lock.release();
    await lost;
    controller.abort();
    const from = sharedNow();
    await refused;
    const next = await waiting;
    const ms = sharedNow() - from;

    expect(await next.release()).toBe(true);
    await observer.nothingLeft(key);
    expect(ms).toBeLessThan(SOON_MS);
    measure('the next entered after', ms, 'ms');
  });

  fault('a time-out, and never arrives', 'taken by the last try [R13, D104]', async (measure) => {
    const { proxy, near, far } = await nearAndFar({ leaseMs: LONG_LEASE_MS });
    const waitMs = 1_000;
    const lock = await near.engine.acquire(key);
    const from = sharedNow();
    const waiting = far.engine.acquire(key, { waitMs });
    await observer.waiting(key, 1);
    const lost = proxy.loseMessage('g');
    await lock.release();
    await lost;

    const next = await waiting;
    const ms = sharedNow() - from;
    expect(ms).toBeGreaterThanOrEqual(waitMs - 1);
    expect(ms).toBeLessThan(waitMs + SOON_MS);
    expect(await next.release()).toBe(true);
    await observer.nothingLeft(key);
    measure('entered after', ms, `ms of ${waitMs}`);
  });

  const ways = {
    'a time-out, 300 times at about the same moment': (
      engine: LockEngine,
      name: string,
      ms: number,
    ) => engine.acquire(name, { waitMs: ms }),
    'an abort, 300 times at about the same moment': (
      engine: LockEngine,
      name: string,
      ms: number,
    ) => engine.acquire(name, { signal: AbortSignal.timeout(ms) }),
  };
  for (const [what, acquire] of Object.entries(ways)) {
    fault(what, 'handed on to the next, nobody lost', async (measure) => {
      const options = { leaseMs: LONG_LEASE_MS, localHandovers: 0 };
      const [first, second, third] = await Promise.all(
        [1, 2, 3].map(() => openLocks(server.url, options)),
      );
      let entered = 0;
      let refused = 0;
      let slowest = 0;
      const round = async (i: number): Promise<void> => {
        const name = uniqueKey();
        const lock = await first!.engine.acquire(name);
        const waitMs = 60;
        const hurried = acquire(second!.engine, name, waitMs).then(
          async (held) => {
            entered++;
            await held.release();
          },
          (error: unknown) => {
            if (!(error instanceof LockNotAcquiredError)) {
              expect(error).toMatchObject({ code: 'LOCK_ABORTED' });
            }
            refused++;
          },
        );
        const patient = third!.engine.acquire(name, { waitMs: 30_000 });
        // Releases between 8 ms before and 6 ms after the end of the wait.
        await sleep(waitMs - 8 + (i % 15));
        await lock.release();
        const released = sharedNow();
        await hurried;
        const next = await patient;
        slowest = Math.max(slowest, sharedNow() - released);
        expect(await next.release()).toBe(true);
        await observer.nothingLeft(name);
      };
      for (let i = 0; i < 300; i += 20) {
        await Promise.all(Array.from({ length: 20 }, (_, j) => round(i + j)));
      }
      expect(entered + refused).toBe(300);
      expect(slowest).toBeLessThan(SOON_MS);
      for (const { engine } of [first!, second!, third!]) {
        await eventually(() => expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 }));
      }
      measure('entered', entered);
      measure('refused', refused);
      measure('slowest hand-over', slowest, 'ms');
    });
  }
});

/** Opens two lock services; `far` reaches Redis through the proxy. */
async function nearAndFar({ leaseMs = LEASE_MS, lingerMs = 0 } = {}) {
  const proxy = await FaultProxy.start(server.port);
  const options = { leaseMs, lingerMs };
  const near = await openLocks(server.url, options);
  const far = await openLocks(proxy.url, options);
  return { proxy, near, far };
}

/** Four processes compete for one key until each has had all its holds, while their connections are cut. */
async function race(
  url: string,
  cut: () => Promise<number>,
  measure: Measure,
): Promise<ProcessHold[]> {
  const racers = await LockProcess.startMany(4, {
    redisUrl: url,
    leaseMs: RACE_LEASE_MS,
    waitMs: 110_000,
  });
  const counter = `counter:${key}`;
  const order = { key, counter, callers: 3, times: 30, pauseMs: 2 };
  let racing = true;
  const races = Promise.all(racers.map((racer) => racer.call('race', order))).finally(
    () => (racing = false),
  );
  let cuts = 0;
  while (racing) {
    cuts += await cut();
    await sleep(150);
  }

  const holds = inOrder(await races);
  const total = racers.length * order.callers * order.times;
  expect(holds).toHaveLength(total);
  expect(Number(await server.admin.get(counter))).toBe(total);
  expect(holds.filter(({ lost }) => lost !== undefined)).toEqual([]);
  expectExclusive(holds);
  expect(cuts).toBeGreaterThanOrEqual(racers.length);
  await observer.nothingLeft(key);
  for (const racer of racers) {
    await eventually(async () =>
      expect(await racer.call('residue')).toEqual({ queues: 0, tokens: 0, timers: 0 }),
    );
  }

  // The queue was never empty, so every pause between two holds is due to the cuts.
  const pauses = holds.slice(1).map((next, i) => next.entered - holds[i]!.left);
  const longest = Math.max(...pauses);
  expect(longest).toBeLessThan(10 * Math.max(RACE_LEASE_MS / 3, ACCEPT_MS));
  measure('cuts', cuts);
  measure('holds', total);
  measure('longest pause between two', longest, 'ms');
  return holds;
}
