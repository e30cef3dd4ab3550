import { beforeEach, expect, it } from '@jest/globals';
import { faketime, RedisServer } from 'dev-servers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { describeIf } from '../support/describe-if.js';
import { eventually } from '../support/eventually.js';
import { fault } from '../support/fault-report.js';
import { openAdmin, openLocks } from '../support/open-locks.js';
import { uniqueKey } from '../support/unique-key.js';

const HOUR_S = 3_600;
const LEASE_MS = 3_000;
/** Upper bound for what takes milliseconds on an idle machine. */
const SOON_MS = 5_000;

let key: string;

beforeEach(() => {
  key = uniqueKey();
});

async function startServer(): Promise<RedisServer> {
  const server = await RedisServer.start({ hasOwnClock: true });
  afterTest(() => server.stop());
  return server;
}

describeIf(faketime !== undefined, 'no libfaketime')("Redis' clock", () => {
  fault(
    "Redis' clock stepped back an hour, for real",
    'tokens still rise, exclusion holds [R5, G8]',
    async (measure) => {
      const server = await startServer();
      const admin = openAdmin(server.url);
      const [a, b] = await Promise.all(
        [1, 2].map(() => openLocks(server.url, { leaseMs: LEASE_MS, localHandovers: 3 })),
      );
      const tokens: number[] = [];
      let inside = 0;
      let most = 0;
      const race = (times: number): Promise<unknown> =>
        Promise.all(
          [a!, b!].flatMap(({ engine }) =>
            Array.from({ length: 3 }, async () => {
              for (let i = 0; i < times; i++) {
                await engine.withLock(key, { waitMs: 25_000 }, async (lock) => {
                  most = Math.max(most, ++inside);
                  await sleep(1);
                  lock.assertHeld();
                  tokens.push(lock.fencingToken);
                  inside--;
                });
              }
            }),
          ),
        );

      await race(10);
      const held = await a!.engine.acquire(key);
      tokens.push(held.fencingToken);
      const waiting = b!.engine.acquire(key, { waitMs: 25_000 });
      await eventually(async () => expect(await admin.zcard(`lock:{${key}}:queue`)).toBe(1));
      const [before] = await admin.time();
      await server.stepClock(-HOUR_S);
      const [after] = await admin.time();
      expect(Number(before) - Number(after)).toBeGreaterThan(HOUR_S - 60);

      // The lease is renewed, and the waiter does not enter.
      await sleep(1.5 * LEASE_MS);
      held.assertHeld();
      const from = performance.now();
      expect(await held.release()).toBe(true);
      const next = await waiting;
      const ms = performance.now() - from;
      tokens.push(next.fencingToken);
      await next.release();
      await race(10);

      expect(most).toBe(1);
      expect(tokens).toHaveLength(122);
      expect(tokens).toEqual([...new Set(tokens)].sort((x, y) => x - y));
      // Above the tokens that the clock, an hour behind, would yield.
      expect(tokens.at(-1)).toBeGreaterThan((Number(after) + HOUR_S / 2) * 1e6);
      expect([...a!.events, ...b!.events]).toEqual([]);
      expect(ms).toBeLessThan(SOON_MS);
      measure('tokens that rose', tokens.length);
      measure('stepped back by', Number(before) - Number(after), 's');
    },
  );

  it('stepped forward an hour: the lease is over in Redis, the holder is told, tokens rise [G7]', async () => {
    const server = await startServer();
    const { engine } = await openLocks(server.url, { leaseMs: LEASE_MS });
    const lock = await engine.acquire(key);
    const told = new Promise((resolve) =>
      lock.signal.addEventListener('abort', () => resolve(lock.signal.reason)),
    );
    await server.stepClock(HOUR_S);
    expect(await told).toMatchObject({ code: 'LOCK_LOST', reason: 'deleted' });
    await lock.release();
    const next = await engine.acquire(key);
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    await next.release();
  });

  it('stepped back after a holder vanished: its unreported tokens are not issued again [R5]', async () => {
    const server = await startServer();
    const admin = openAdmin(server.url);
    const [a, b] = await Promise.all([1, 2].map(() => openLocks(server.url)));
    // Local hand-overs, whose tokens are not reported to the server.
    let last = await a!.engine.acquire(key);
    for (const next of Array.from({ length: 500 }, () => a!.engine.acquire(key))) {
      void last.release();
      last = await next;
    }
    await server.stepClock(-HOUR_S);
    await admin.del(`lock:{${key}}`); // as if its lease had expired
    const lock = await b!.engine.acquire(key);
    expect(lock.fencingToken).toBeGreaterThan(last.fencingToken);
    await lock.release();
  });
});
