/** Steps of the wall clock, and a machine that sleeps, with locks on a real Redis. */
import { expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { openLocks } from '../support/open-locks.js';
import { useRedisServer } from '../support/own-redis.js';
import { SteppedClock } from '../support/stepped-clock.js';
import { uniqueKey } from '../support/unique-key.js';

const server = useRedisServer();

it('a clock that is set takes no lock from its holder, and makes no nested call wait for its own lock [G6]', async () => {
  const clock = new SteppedClock();
  const { engine, events } = await openLocks(server.url, { clock });
  const other = await openLocks(server.url);
  const [key, second] = [uniqueKey(), uniqueKey()];
  let rival: Promise<unknown> = Promise.resolve();
  await engine.withLock(key, {}, async (lock) => {
    rival = other.engine.withLock(key, {}, () => {});
    for (const step of [3_600_000, -3_600_000, 40_000, 40_000]) {
      clock.offsetMs += step;
      await engine.withLock(key, { waitMs: Infinity }, (inner) => inner.assertHeld());
      clock.offsetMs += step;
      await engine.withLock([key, second], { waitMs: 5_000 }, (both) => both.assertHeld());
      clock.offsetMs += step;
      await lock.ensureRemaining(20_000);
      lock.assertHeld();
    }
    expect(lock.signal.aborted).toBe(false);
  });
  await rival;
  expect(events).toEqual([]);
});

it('the signal aborts soon after a suspend in which another process got the key', async () => {
  const clock = new SteppedClock();
  const { engine } = await openLocks(server.url, { clock });
  const key = uniqueKey();
  const lock = await engine.acquire(key);
  await sleep(300);
  await server.admin.set(`lock:{${key}}`, 'another process', 'PX', 60_000);
  const from = performance.now();
  clock.offsetMs += 600_000;
  while (!lock.signal.aborted && performance.now() - from < 9_000) await sleep(20);
  expect(performance.now() - from).toBeLessThan(4_000); // a second, on an idle machine; the watchdog's turn is at 10 s
  expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST' });
});
