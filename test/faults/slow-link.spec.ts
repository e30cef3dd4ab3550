import { describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockNotAcquiredError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { concurrentIt } from '../support/concurrent.js';
import { eventually } from '../support/eventually.js';
import { openAdmin, openLocks } from '../support/open-locks.js';
import { useRedisServer } from '../support/own-redis.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { uniqueKey } from '../support/unique-key.js';

/** More than half of `SHORT_MS`, and much less than the 1 s that a single try has. */
const ROUND_TRIP_MS = 600;
/** Shorter than two round trips. */
const SHORT_MS = 1_000;
const LONG_MS = 30_000;
/** A measured round trip of at least half of `SHORT_MS`; a busy machine makes it longer. */
const tooFar = {
  code: 'LOCK_STORE_FAILED',
  message: expect.stringMatching(
    /a round trip to Redis took \d{3,} ms, .*more than half of the lease of 1000 ms; set leaseMs /,
  ),
};

const server = useRedisServer();

/** Opens a service that receives the replies of Redis `ROUND_TRIP_MS` late. */
async function openFarLocks() {
  const proxy = await TcpProxy.start(server.port);
  const locks = await openLocks(proxy.url, { leaseMs: LONG_MS, waitMs: 20_000 });
  proxy.delayAnswers(ROUND_TRIP_MS, { alsoToCome: true }); // the library may replace an idle connection
  return locks;
}

async function connectionsMade(): Promise<number> {
  const stats = await server.admin.info('stats');
  return Number(/total_connections_received:(\d+)/.exec(stats)?.[1]);
}

describe('a round trip of more than half the lease', () => {
  concurrentIt.each<[string, object]>([
    ['a renewed lease', { leaseMs: SHORT_MS }],
    ['a fixed lease', { leaseMs: SHORT_MS, renew: false }],
    ['a wait without limit', { leaseMs: SHORT_MS, waitMs: Infinity }],
    ['a single try', { leaseMs: SHORT_MS, waitMs: 0 }],
  ])('is named in the error of the call, and others get the key: %s', async (_, options) => {
    const { engine: others } = await openLocks(server.url);
    // Opened last: replacing an idle connection would leave no time for a single try.
    const { engine } = await openFarLocks();
    const key = uniqueKey();

    await expect(engine.acquire(key, options)).rejects.toMatchObject(tooFar);

    const lock = await others.acquire(key, { waitMs: 5_000 });
    expect(lock.isHeld).toBe(true);
    expect(await openAdmin(server.url).keys(`lock:{${key}}:queue`)).toEqual([]);
  });

  concurrentIt('is named in the error for several keys', async () => {
    const { engine } = await openFarLocks();
    const keys = [uniqueKey(), uniqueKey()];
    const refused = engine.acquire(keys, { leaseMs: SHORT_MS });
    await expect(refused).rejects.toMatchObject(tooFar);
    const { engine: others } = await openLocks(server.url);
    const lock = await others.acquire(keys, { waitMs: 5_000 });
    expect(lock.isHeld).toBe(true);
  });

  concurrentIt('does not affect a call in the same queue that asks for a long lease', async () => {
    const { engine } = await openFarLocks();
    const key = uniqueKey();
    const short = engine.acquire(key, { leaseMs: SHORT_MS }).catch((error: unknown) => error);
    const long = engine.acquire(key, { leaseMs: LONG_MS });

    expect(await short).toMatchObject(tooFar);
    expect((await long).isHeld).toBe(true);
    const { engine: others } = await openLocks(server.url);
    await expect(others.acquire(key, { waitMs: 0 })).rejects.toThrow(LockNotAcquiredError);
  });

  concurrentIt('does not affect a lease longer than two round trips', async () => {
    const { engine } = await openFarLocks();
    const lock = await engine.acquire(uniqueKey(), { leaseMs: 20 * SHORT_MS });
    expect(lock.isHeld).toBe(true);
  });
});

describe('a round trip longer than a command may take', () => {
  /**
   * The error of a service whose own lease is too short. On a busy machine, a round trip takes longer than
   * `roundTripMs`.
   */
  const tooSlow = (roundTripMs: number, leaseMs: number): RegExp => {
    const [first, ...others] = String(roundTripMs);
    const measured = `([${first}-9]\\d{${others.length}}|\\d{${others.length + 2},})`;
    return new RegExp(
      `a round trip to Redis took ${measured} ms, more than the ${leaseMs / 3} ms that a command may take with a lease of ${leaseMs} ms; set leaseMs to several times the round trip$`,
    );
  };

  it.each([
    [1_080, 1_800],
    [750, 1_800],
    [1_800, 3_000],
  ])(
    'ends the start with a message that names it: %d ms, leaseMs %d [D25]',
    async (ms, leaseMs) => {
      const proxy = await TcpProxy.start(server.port);
      proxy.delayAnswers(ms, { alsoToCome: true });
      await expect(openLocks(proxy.url, { leaseMs })).rejects.toMatchObject({
        code: 'LOCK_STORE_FAILED',
        message: expect.stringMatching(tooSlow(ms, leaseMs)),
      });
    },
  );

  concurrentIt('does not end a start if it passes', async () => {
    const proxy = await TcpProxy.start(server.port);
    proxy.delayAnswers(360, { alsoToCome: true });
    const opening = openLocks(proxy.url, { leaseMs: 600 });
    await sleep(4_000); // the round trip has been measured
    proxy.delayAnswers(0, { alsoToCome: true });
    proxy.cut();
    const { engine } = await opening;
    expect((await engine.acquire(uniqueKey())).isHeld).toBe(true);
  });

  concurrentIt.each([360, 220])(
    'is named by calls, log and ping() if it begins later, until it is over: %d ms [D25]',
    async (ms) => {
      const leaseMs = 600;
      const proxy = await TcpProxy.start(server.port);
      const { engine, events } = await openLocks(proxy.url, { leaseMs });
      await sleep(300); // the connection counts as idle, so it may have been dropped
      proxy.delayAnswers(ms, { alsoToCome: true });
      const told = () => events.filter(({ type }) => type.startsWith('store-')).at(-1);
      await eventually(() =>
        expect(engine.acquire(uniqueKey(), { waitMs: 1_500 })).rejects.toThrow(
          tooSlow(ms, leaseMs),
        ),
      );
      await eventually(() =>
        // Once for each reason, of which a busy machine may add others.
        expect(events).toContainEqual({
          type: 'store-lost',
          cause: expect.objectContaining({
            message: expect.stringMatching(tooSlow(ms, leaseMs)),
          }),
        }),
      );
      await eventually(() => expect(engine.ping()).rejects.toThrow(tooSlow(ms, leaseMs)));
      expect(events.map(({ type }) => type)).not.toContain('connection-replaced');

      proxy.delayAnswers(0, { alsoToCome: true });
      proxy.cut();
      await eventually(() => engine.ping());
      await eventually(() => expect(told()).toMatchObject({ type: 'store-back' }));
      expect((await engine.acquire(uniqueKey())).isHeld).toBe(true);
    },
  );

  it('is not mistaken for a device that drops connections [D25]', async () => {
    let isReplaced = false; // it is not, if its first replies happened to be slow
    for (let i = 0; i < 5 && !isReplaced; i++) {
      const proxy = await TcpProxy.start(server.port);
      const { engine, events } = await openLocks(proxy.url, { leaseMs: LONG_MS });
      await sleep(300);
      proxy.delayAnswers(ROUND_TRIP_MS, { alsoToCome: true });
      const made = await connectionsMade();
      expect((await engine.acquire(uniqueKey())).isHeld).toBe(true);
      isReplaced = (await connectionsMade()) > made;
      expect(events).toEqual([]);
    }
    expect(isReplaced).toBe(true);
  });
});
