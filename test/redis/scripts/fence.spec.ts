import { describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockScripts } from '../../../libs/nestjs-locked/src/redis/scripts/lock-scripts.js';
import { runScript } from '../../support/run-script.js';
import { ACCEPT_MS, FENCE_KEEP_MS, LEASE_MS } from '../../support/script-bench.js';
import { BLOCK, expectLife, granted } from '../../support/script-replies.js';
import { useScripts } from '../../support/use-scripts.js';

/** The length of a block in milliseconds of the server's clock: a number for each microsecond. */
const BLOCK_MS = BLOCK / 1_000;

const { newBench, heldBench, serverMicros } = useScripts();

describe('the fence', () => {
  it('is above the stored number when the clock of the server is behind', async () => {
    const bench = newBench();
    const stored = (await serverMicros()) + 3_600_000_000;
    await bench.redis.set(bench.fence, String(stored), 'PX', FENCE_KEEP_MS);
    const token = bench.deadToken();

    expect(granted(await bench.acquire(token), token).fence).toBe(stored + 1);
  });

  it('rises from lease to lease, even when a whole block was used', async () => {
    const bench = newBench();
    let highest = 0;
    for (let i = 0; i < 20; i++) {
      const token = bench.deadToken();
      const { fence, blockEnd } = granted(await bench.acquire(token), token);
      expect(fence).toBeGreaterThan(highest);
      highest = i % 2 === 0 ? blockEnd : fence;
      await bench.release(token, highest);
    }
  });

  it('rises above a holder that vanished without reporting what it used [R5]', async () => {
    const { bench, fence } = await heldBench();
    await bench.redis.del(bench.lock);
    const token = bench.deadToken();

    expect(granted(await bench.acquire(token), token).fence).toBeGreaterThan(fence + BLOCK);
  });

  it('rises above numbers that a failover has lost, even when it is ahead of the clock [D57, G24]', async () => {
    const bench = newBench();
    const clock = await serverMicros();
    const replicated = `${clock + 60_000_000} ${clock}`;
    let highest = clock + 60_000_000;
    for (let i = 0; i < 3; i++) {
      await bench.redis.del(bench.lock);
      await bench.redis.set(bench.fence, replicated, 'PX', FENCE_KEEP_MS);
      const token = bench.deadToken();
      const { fence } = granted(await bench.acquire(token), token);
      expect(fence).toBeGreaterThan(highest);
      highest = fence;
    }
  });

  it('grows with the time since it was written, even if the clock has just passed it', async () => {
    const bench = newBench();
    const clock = await serverMicros();
    const hour = 3_600_000_000;
    await bench.redis.set(bench.fence, `${clock} ${clock - hour}`, 'PX', FENCE_KEEP_MS);
    const token = bench.deadToken();

    const { fence } = granted(await bench.acquire(token), token);
    expect(fence).toBeGreaterThan(clock + hour / 2);
  });

  it('that is ahead of the clock grows more slowly than the clock', async () => {
    const bench = newBench();
    const clock = await serverMicros();
    const stored = clock + 60_000_000;
    await bench.redis.set(bench.fence, `${stored} ${clock}`, 'PX', FENCE_KEEP_MS);
    await sleep(100);
    const token = bench.deadToken();

    const { fence } = granted(await bench.acquire(token), token);
    expect(fence - stored).toBeGreaterThan(50_000 - 1);
    expect(fence - stored).toBeLessThan(((await serverMicros()) - clock) * 0.75);
  });

  it.each(['released', 'handed over', 'left for a new place'])(
    'does not fall when a lease is %s by a process that knows only an old grant of it',
    async (how) => {
      const { bench, token, fence } = await heldBench();
      const lastOfOthers = fence + 3_600_000_000;
      await bench.redis.set(bench.fence, String(lastOfOthers), 'PX', FENCE_KEEP_MS);
      const next = (await bench.peer()).token();
      if (how === 'handed over') await bench.acquire(next);

      await bench.release(token, fence, how === 'left for a new place' ? next : '');
      if (how === 'released') granted(await bench.acquire(next), next);
      const state = await bench.state();
      expect(state.lock).toBe(next);
      expect(Number.parseInt(state.fence ?? '', 10)).toBeGreaterThan(lastOfOthers);
    },
  );

  it('rises although it was deleted', async () => {
    const { bench, token, fence } = await heldBench();
    await bench.release(token, fence);
    await bench.redis.del(bench.fence);
    const next = bench.deadToken();

    expect(granted(await bench.acquire(next), next).fence).toBeGreaterThan(fence);
  });

  it.each(['nonsense', ''])('begins with the clock when %j is stored', async (stored) => {
    const bench = newBench();
    await bench.redis.set(bench.fence, stored, 'PX', FENCE_KEEP_MS);
    const token = bench.deadToken();

    const before = await serverMicros();
    expect(granted(await bench.acquire(token), token).fence).toBeGreaterThanOrEqual(before);
  });

  it('is kept until the clock of the server has passed it, and for fenceKeepMs more [R37]', async () => {
    const AHEAD_MS = 7_200_000;
    const bench = newBench();
    const stored = (await serverMicros()) + AHEAD_MS * 1_000;
    await bench.redis.set(bench.fence, String(stored), 'PX', FENCE_KEEP_MS);
    const token = bench.deadToken();

    const { fence } = granted(await bench.acquire(token), token);
    expectLife(await bench.redis.pttl(bench.fence), AHEAD_MS + BLOCK_MS + 1 + FENCE_KEEP_MS);
    await bench.renew(token, fence + 2 * BLOCK);
    expectLife(await bench.redis.pttl(bench.fence), AHEAD_MS + 3 * BLOCK_MS + 1 + FENCE_KEEP_MS);
    await bench.release(token, fence + 2 * BLOCK);
    expectLife(await bench.redis.pttl(bench.fence), AHEAD_MS + 2 * BLOCK_MS + 1 + FENCE_KEEP_MS);
  });

  it('is kept for fenceKeepMs longer than the lease that may be using it [R37]', async () => {
    const HOURS_MS = 36_000_000;
    const bench = newBench();
    const [token, fresh] = [bench.deadToken(), bench.deadToken()];

    const { fence } = granted(await bench.acquire(token, { leaseMs: HOURS_MS }), token);
    expectLife(await bench.redis.pttl(bench.fence), HOURS_MS + FENCE_KEEP_MS);
    await bench.renew(token, fence, 1);
    expectLife(await bench.redis.pttl(bench.fence), HOURS_MS + FENCE_KEEP_MS);
    granted(await bench.acquire(token, { leaseMs: 1 }), token);
    expectLife(await bench.redis.pttl(bench.fence), HOURS_MS + FENCE_KEEP_MS);
    granted(await bench.release(token, fence, fresh), fresh);
    expectLife(await bench.redis.pttl(bench.fence), LEASE_MS + FENCE_KEEP_MS);
  });

  it('that is not to be kept does not make a release fail', async () => {
    const { bench, token, fence } = await heldBench();
    const { inboxPrefix, keys, redis } = bench;
    const settings = { inCluster: false, inboxPrefix, acceptMs: ACCEPT_MS, fenceKeepMs: 0 };
    const { release } = new LockScripts(settings);
    while ((await serverMicros()) <= fence + 1_000) await sleep(1); // the clock has passed the number

    expect(await runScript(redis, release, keys, [token, fence])).toEqual(['released']);
    expect((await bench.state()).lock).toBeNull();
  });

  it('is written in digits up to the largest whole number', async () => {
    const bench = newBench();
    const largest = Number.MAX_SAFE_INTEGER;
    const stored = largest - 2 * BLOCK;
    await bench.redis.set(bench.fence, String(stored), 'PX', FENCE_KEEP_MS);
    const token = bench.deadToken();

    const { fence } = granted(await bench.acquire(token), token);
    expect(fence).toBe(stored + 1);
    expect(await bench.renew(token, largest - BLOCK)).toEqual([String(largest), 0]);
    expect(await bench.release(token, largest)).toEqual(['released']);
    expect((await bench.state()).fence).toBe('9007199254740991');
  });
});
