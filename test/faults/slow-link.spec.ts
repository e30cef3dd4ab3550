import { describe, expect, it } from '@jest/globals';
import { LockNotAcquiredError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { openAdmin, openLocks } from '../support/open-locks.js';
import { useRedisServer } from '../support/own-redis.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { uniqueKey } from '../support/unique-key.js';

const ROUND_TRIP_MS = 700;
/** Shorter than two round trips. */
const SHORT_MS = 1_000;
const LONG_MS = 30_000;
/** Half of `SHORT_MS` at the least, however slow the machine makes the link. */
const tooFar = {
  code: 'LOCK_STORE_FAILED',
  message: expect.stringMatching(
    /a round trip to Redis took \d{3,} ms, more than half of the lease of 1000 ms; set leaseMs /,
  ),
};

const server = useRedisServer();

/** A service whose answers from Redis take `ROUND_TRIP_MS`. */
async function openFarLocks() {
  const proxy = await TcpProxy.start(server.port);
  const locks = await openLocks(proxy.url, { leaseMs: LONG_MS, waitMs: 20_000 });
  proxy.delayAnswers(ROUND_TRIP_MS);
  return locks;
}

describe('a round trip of more than half the lease', () => {
  it.each<[string, object]>([
    ['a renewed lease', { leaseMs: SHORT_MS }],
    ['a fixed lease', { leaseMs: SHORT_MS, renew: false }],
    ['a wait without limit', { leaseMs: SHORT_MS, waitMs: Infinity }],
    ['a single try', { leaseMs: SHORT_MS, waitMs: 0 }],
  ])(
    'is named when the call is refused, and others get the key: %s',
    async (_, options) => {
      const { engine } = await openFarLocks();
      const { engine: others } = await openLocks(server.url);
      const key = uniqueKey();

      await expect(engine.acquire(key, options)).rejects.toMatchObject(tooFar);

      const lock = await others.acquire(key, { waitMs: 5_000 });
      expect(lock.isHeld).toBe(true);
      expect(await openAdmin(server.url).keys(`lock:{${key}}:queue`)).toEqual([]);
    },
    30_000,
  );

  it('is named for several keys', async () => {
    const { engine } = await openFarLocks();
    const keys = [uniqueKey(), uniqueKey()];
    const refused = engine.acquire(keys, { leaseMs: SHORT_MS });
    await expect(refused).rejects.toMatchObject(tooFar);
    const { engine: others } = await openLocks(server.url);
    const lock = await others.acquire(keys, { waitMs: 5_000 });
    expect(lock.isHeld).toBe(true);
  }, 30_000);

  it('concerns no call in the same queue that asks for a long lease', async () => {
    const { engine } = await openFarLocks();
    const key = uniqueKey();
    const short = engine.acquire(key, { leaseMs: SHORT_MS }).catch((error: unknown) => error);
    const long = engine.acquire(key, { leaseMs: LONG_MS });

    expect(await short).toMatchObject(tooFar);
    expect((await long).isHeld).toBe(true);
    const { engine: others } = await openLocks(server.url);
    await expect(others.acquire(key, { waitMs: 0 })).rejects.toThrow(LockNotAcquiredError);
  }, 30_000);

  it('concerns no lease that is longer than two round trips', async () => {
    const { engine } = await openFarLocks();
    const lock = await engine.acquire(uniqueKey(), { leaseMs: 20 * SHORT_MS });
    expect(lock.isHeld).toBe(true);
  });
});
