import { describe, expect } from '@jest/globals';
import {
  LockAbortedError,
  LockLostError,
  LockNotAcquiredError,
  LockStoreError,
} from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { fault } from '../support/fault-report.js';
import { openAdmin, openLocks } from '../support/open-locks.js';
import { useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 3_000;

const server = useRedisServer();

/** Two keys, in the order in which they are locked. */
function twoKeys(): [string, string] {
  const key = uniqueKey();
  return [`${key}:a`, `${key}:b`];
}

/** The error of a call, if any, and its duration. */
async function outcomeOf(call: Promise<unknown>): Promise<{ error: unknown; ms: number }> {
  const since = performance.now();
  const [outcome] = await Promise.allSettled([call]);
  const error: unknown = outcome.status === 'rejected' ? outcome.reason : undefined;
  return { error, ms: performance.now() - since };
}

describe('several keys', () => {
  fault(
    'Redis SIGSTOPped during a single try',
    'LockStoreError within a second and a half, no unhandled rejection, nothing left [D1]',
    async (measure) => {
      const { engine } = await openLocks(server.url, { leaseMs: LEASE_MS });
      const keys = twoKeys();
      server.pause();
      afterTest(() => server.resume());
      const { error, ms } = await outcomeOf(engine.acquire(keys, { waitMs: 0 }));
      expect(error).toBeInstanceOf(LockStoreError);
      expect(ms).toBeLessThan(5_000); // the default wait is twice as long
      server.resume();
      await eventually(async () =>
        expect(await openAdmin(server.url).exists(...keys.map((key) => `lock:{${key}}`))).toBe(0),
      );
      measure('refused after', ms, 'ms');
    },
  );

  fault(
    'Redis SIGSTOPped, and the signal aborts, or the application closes',
    'LockAbortedError at once',
    async (measure) => {
      const { engine } = await openLocks(server.url, { leaseMs: LEASE_MS });
      const closing = await openLocks(server.url, { leaseMs: LEASE_MS });
      server.pause();
      afterTest(() => server.resume());
      const aborted = outcomeOf(engine.acquire(twoKeys(), { signal: AbortSignal.timeout(100) }));
      const closed = outcomeOf(closing.engine.acquire(twoKeys()));
      await sleep(100);
      closing.engine.drain();
      const outcomes = await Promise.all([aborted, closed]);
      for (const { error } of outcomes) expect(error).toBeInstanceOf(LockAbortedError);
      const slowest = Math.max(...outcomes.map(({ ms }) => ms));
      expect(slowest).toBeLessThan(5_000); // the default wait is twice as long
      measure('ended after', slowest, 'ms at most');
    },
  );

  fault(
    'Redis silent for a while, or a replica that refuses to write',
    'waited for like one key: granted when it answers again',
    async (measure) => {
      const { engine } = await openLocks(server.url, { leaseMs: LEASE_MS });
      const admin = openAdmin(server.url);
      server.pause();
      const silent = outcomeOf(engine.acquire(twoKeys(), { waitMs: 10_000 }));
      await sleep(2_500);
      server.resume();
      expect((await silent).error).toBeUndefined();
      await admin.call('REPLICAOF', '127.0.0.1', '1');
      const readonly = outcomeOf(engine.acquire(twoKeys(), { waitMs: 10_000 }));
      await sleep(1_000);
      await admin.call('REPLICAOF', 'NO', 'ONE');
      const { error, ms } = await readonly;
      expect(error).toBeUndefined();
      measure('READONLY for a second: granted after', ms, 'ms');
    },
  );

  fault(
    'the first key is deleted while the second one is waited for',
    'it is acquired again before the work starts, if a renewal has shown that it is gone',
    async (measure) => {
      const one = await openLocks(server.url, { leaseMs: LEASE_MS });
      const two = await openLocks(server.url, { leaseMs: LEASE_MS });
      const [a, b] = twoKeys();
      const blocker = await two.engine.acquire(b);
      let inside = 0;
      let most = 0;
      const work = async (): Promise<void> => {
        most = Math.max(most, ++inside);
        await sleep(300);
        inside--;
      };
      const both = one.engine.withLock([a, b], {}, work);
      const admin = openAdmin(server.url);
      await eventually(async () => expect(await admin.get(`lock:{${a}}`)).not.toBeNull());
      await admin.del(`lock:{${a}}`);
      const thief = two.engine.withLock(a, {}, async () => {
        await sleep(LEASE_MS / 2); // the other process has noticed the loss
        await blocker.release();
        await work();
      });
      await Promise.all([both, thief]);
      expect(most).toBe(1);
      measure('inside at once', most);
    },
  );

  fault(
    '`maxHoldMs`, or a fixed lease, shorter than the wait for the second key',
    'counted from the start of the work',
    async (measure) => {
      const one = await openLocks(server.url, { leaseMs: LEASE_MS });
      const two = await openLocks(server.url, { leaseMs: LEASE_MS });
      const left: number[] = [];
      for (const options of [{ maxHoldMs: 500 }, { renew: false, leaseMs: 1_000 }]) {
        const [a, b] = twoKeys();
        const blocker = await two.engine.acquire(b);
        const both = one.engine.acquire([a, b], options);
        await sleep(1_500);
        await blocker.release();
        const lock = await both;
        left.push(Math.round(lock.remainingMs()));
        expect(await two.engine.tryAcquire(a)).toBeNull();
        await lock.release();
      }
      expect(left[0]).toBeGreaterThan(400);
      expect(left[1]).toBeGreaterThan(800);
      measure('left at the start, of 500 and 1,000 ms,', left.join(' and '), 'ms');
    },
  );

  fault(
    'a process keeps trying two keys, one of which is held',
    'others are not disturbed: 200 single tries of the free one succeed [D16]',
    async (measure) => {
      const [one, two, three] = await Promise.all([1, 2, 3].map(() => openLocks(server.url)));
      const [a, b] = twoKeys();
      const blocker = await three!.engine.acquire(b);
      let trying = true;
      let tries = 0;
      const tryBoth = async (): Promise<void> => {
        for (; trying; tries++) expect(await one!.engine.tryAcquire([a, b])).toBeNull();
      };
      const busy = tryBoth();
      let refused = 0;
      for (let n = 0; n < 200; n++) {
        const lock = await two!.engine.tryAcquire(a);
        if (lock === null) refused++;
        await lock?.release();
      }
      trying = false;
      await busy;
      await blocker.release();
      expect(refused).toBe(0);
      measure('failing tries beside it', tries);
    },
  );

  fault(
    'a failed call with `holdAtLeastMs`',
    'the keys that were free are free again',
    async () => {
      const one = await openLocks(server.url, { leaseMs: LEASE_MS });
      const two = await openLocks(server.url, { leaseMs: LEASE_MS });
      const [a, b] = twoKeys();
      const blocker = await two.engine.acquire(b);
      const options = { holdAtLeastMs: 60_000, waitMs: 300 };
      const { error } = await outcomeOf(one.engine.acquire([a, b], options));
      expect(error).toBeInstanceOf(LockNotAcquiredError);
      const lock = await two.engine.acquire(a, { waitMs: 2_000 });
      await Promise.all([lock.release(), blocker.release()]);
    },
  );
});

describe('an operator', () => {
  fault(
    'revokes a lease that lingers unused',
    'its process asks again: never two inside',
    async () => {
      const one = await openLocks(server.url, { leaseMs: LEASE_MS, lingerMs: LEASE_MS });
      const two = await openLocks(server.url, { leaseMs: LEASE_MS });
      const key = uniqueKey();
      await (await one.engine.acquire(key)).release();
      expect(await two.engine.forceRelease(key)).toBe(true);
      const lock = await two.engine.acquire(key);
      expect(await one.engine.tryAcquire(key)).toBeNull();
      lock.assertHeld();
      await lock.release();
    },
  );

  fault(
    'revokes a held lock',
    'its signal aborts at once, and the next caller enters a second later [G10]',
    async (measure) => {
      const leaseMs = 120_000; // the next renewal is far away
      const one = await openLocks(server.url, { leaseMs });
      const two = await openLocks(server.url, { leaseMs, waitMs: 60_000 });
      const key = uniqueKey();
      const lock = await one.engine.acquire(key);
      const from = performance.now();
      await two.engine.forceRelease(key);
      const entering = two.engine.acquire(key);
      await eventually(() => expect(lock.signal.aborted).toBe(true), leaseMs / 6);
      measure('told after', performance.now() - from, 'ms');
      expect(() => lock.assertHeld()).toThrow(LockLostError);
      const next = await entering;
      expect(performance.now() - from).toBeGreaterThan(999);
      expect(performance.now() - from).toBeLessThan(leaseMs / 6);
      next.assertHeld();
      await next.release();
    },
  );
});
