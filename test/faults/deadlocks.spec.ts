/** Calls that wait for each other while sentinels replace the master. */
import { describe, expect } from '@jest/globals';
import { RedisReplicaSet } from 'dev-servers';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  LockNotAcquiredError,
  LockStoreError,
} from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { concurrentFault } from '../support/fault-report.js';
import { makeGate } from '../support/gate.js';
import { openAdmin, openLocksOn } from '../support/open-locks.js';
import {
  errorsOf,
  expectOneVictim,
  type StartedRing,
  startRing,
} from '../support/ring-of-calls.js';
import { ringThroughReaders } from '../support/ring-through-readers.js';
import { uniqueKey } from '../support/unique-key.js';

/** Longer than a failover. */
const LEASE_MS = 9_000;
/** Waits look for a deadlock so often. */
const INTERVAL_MS = 3_000;
/** Soon, because a call against the order of the keys waits ten seconds at most. */
const DOWN_AFTER_MS = 1_000;
/**
 * How long after a failover a ring is found: within two intervals, each with its random delay, and after a question
 * that the old master has not answered, which takes as long as another one.
 */
const FOUND_WITHIN_MS = 3.5 * INTERVAL_MS;
const WAIT_MS = 100_000;

const failovers: Record<string, (set: RedisReplicaSet) => Promise<unknown>> = {
  'a planned failover': (set) => set.failOver(),
  'a killed master': async (set) => {
    const old = await set.master();
    await old.kill();
    await set.successorOf(old);
  },
};

describe('calls of three services that wait for each other', () => {
  for (const [what, failOver] of Object.entries(failovers))
    concurrentFault(
      what,
      'one wait of each ring ends soon after it, and no other, whenever the ring has closed',
      async (measure) => {
        const set = await RedisReplicaSet.start({ downAfterMs: DOWN_AFTER_MS });
        afterTest(() => set.stop());
        const opened = await Promise.all(
          [1, 2, 3].map(() =>
            openLocksOn(
              { sentinels: set.sentinels, name: set.name },
              { leaseMs: LEASE_MS, waitMs: WAIT_MS },
            ),
          ),
        );
        const engines = opened.map(({ engine }) => engine);
        const [one, other] = engines as [(typeof engines)[0], (typeof engines)[0]];
        const told = () =>
          opened.flatMap(({ events }) =>
            events.flatMap((event) => (event.type === 'deadlock' ? [event] : [])),
          );

        // Two that wait for somebody who works, for longer than any ring lasts.
        const [working, held, done] = [uniqueKey('work'), makeGate(), makeGate()];
        const worker = one.withLock(working, {}, async () => {
          held.open();
          await done.opened;
        });
        await held.opened;
        const patient = [1, 2].map((i) =>
          other.withLock(uniqueKey('patient'), {}, () => other.withLock(working, {}, () => i)),
        );

        const moments = {
          before: makeGate(),
          just: makeGate(),
          amid: makeGate(),
          after: makeGate(),
        };
        const rings = Object.entries(moments).flatMap(([moment, { opened: closing }]) =>
          [2, 3].map((count) => {
            // The last call is the only one against the order of the keys.
            const keys = Array.from({ length: count }, () => uniqueKey(moment)).sort();
            return { moment, count, keys, ring: startRing(engines, keys, closing) };
          }),
        );
        await Promise.all(rings.map(({ ring }) => ring.allHold));
        const readersDone = makeGate();
        const readers = ringThroughReaders(engines, readersDone.opened);
        moments.before.open();
        await sleep(1_000);
        const old = await set.master();
        expect(await openAdmin(old.url).wait(1, 20_000)).toBe(1); // what the replica lacks is lost
        moments.just.open();
        const from = performance.now();
        const failedOver = failOver(set);
        failedOver.catch(() => {}); // awaited later
        await sleep(700);
        moments.amid.open();
        await failedOver;
        await Promise.all(engines.map((engine) => eventually(() => engine.ping())));
        moments.after.open();
        const over = performance.now();
        measure('failover took', over - from, 'ms');

        const foundAfter = async (ring: StartedRing): Promise<number> => {
          await ring.ended;
          return performance.now() - over;
        };
        await Promise.all(
          rings.map(async ({ moment, count, keys, ring }) => {
            const foundMs = await foundAfter(ring);
            measure(`${moment}, ${count} calls: found after`, foundMs, 'ms');
            expect(foundMs).toBeLessThan(FOUND_WITHIN_MS);
            const [error] = errorsOf(await ring.ended);
            // A call that begins during an outage fails, or waits for the new master.
            const isRefused = moment === 'amid' && error instanceof LockStoreError;
            // A wait against the order of keys ends by itself after ten seconds; a failover on a busy machine takes as
            // long.
            const isLate = over - from > 7_000 && error instanceof LockNotAcquiredError;
            if (isRefused || isLate) expect(errorsOf(await ring.ended)).toHaveLength(1);
            else await expectOneVictim(ring, keys);
          }),
        );
        await eventually(() =>
          expect(told().filter(({ label }) => /wants/.test(label ?? ''))).toHaveLength(1),
        );
        readersDone.open();
        expect(errorsOf(await readers)).toHaveLength(1);
        expect(told().length).toBeLessThanOrEqual(rings.length + 1);
        await sleep(2 * INTERVAL_MS);
        done.open();
        await worker;
        expect(await Promise.all(patient)).toEqual([1, 2]);
        for (const { events } of opened)
          expect(events.filter(({ type }) => type === 'lost')).toEqual([]);
      },
    );
});
