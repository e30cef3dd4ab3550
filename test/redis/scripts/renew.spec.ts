import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { LARGEST_FENCE_BLOCK } from '../../../libs/nestjs-locked/src/core/store/fence-block.js';
import { afterTest } from '../../support/after-test.js';
import { startRedisServer } from '../../support/own-redis.js';
import { FENCE_KEEP_MS, LEASE_MS, ScriptBench } from '../../support/script-bench.js';
import { BLOCK, expectLife, granted } from '../../support/script-replies.js';
import { useScripts } from '../../support/use-scripts.js';

const { newBench, heldBench, contendedBench } = useScripts();

describe('renew', () => {
  it('extends the lease, reserves the next block, and reports how many wait', async () => {
    const { bench, token, fence } = await contendedBench();
    await bench.redis.pexpire(bench.lock, 50_000);
    await bench.redis.pexpire(bench.fence, 50_000);
    const used = fence + 600_000;

    for (const attempt of ['first', 'repeated']) {
      expect([attempt, await bench.renew(token, used)]).toEqual([
        attempt,
        [String(used + BLOCK), 1],
      ]);

      expect(await bench.state()).toMatchObject({ lock: token, fence: String(used + BLOCK) });
      expectLife(await bench.lockLifeMs(), LEASE_MS);
      expectLife(await bench.redis.pttl(bench.fence), LEASE_MS + FENCE_KEEP_MS);
    }
  });

  it('reserves above the used numbers, not above the stored one [R5]', async () => {
    const { bench, token, fence } = await heldBench();
    const used = fence + 3_600_000_000; // somebody has seen such a number

    expect(await bench.renew(token, used)).toEqual([String(used + BLOCK), 0]);

    await bench.redis.del(bench.lock);
    const next = bench.deadToken();
    const after = granted(await bench.acquire(next), next).fence;
    expect(after).toBeGreaterThan(used + BLOCK);
    expect(after).toBeLessThan(used + 3_600_000_000);
  });

  it('without a need for numbers, extends the lease and does not change the fence', async () => {
    const { bench, token, fence } = await heldBench();
    await bench.redis.pexpire(bench.lock, 50_000);
    await bench.redis.pexpire(bench.fence, LEASE_MS); // less than a renewal wants
    const before = await bench.redis.get(bench.fence);

    expect(await bench.renew(token, fence, LEASE_MS, 0)).toEqual(['0', 0]);

    expectLife(await bench.lockLifeMs(), LEASE_MS);
    expect(await bench.redis.get(bench.fence)).toBe(before);
    expectLife(await bench.redis.pttl(bench.fence), LEASE_MS + 2 * FENCE_KEEP_MS);
  });

  it('keeps the fence as long as the lease and fenceKeepMs, and does not write it before it must', async () => {
    const { bench, token, fence } = await heldBench();
    const enough = LEASE_MS + FENCE_KEEP_MS + 60_000;
    await bench.redis.pexpire(bench.fence, enough);
    await bench.renew(token, fence, LEASE_MS, 0);
    expectLife(await bench.redis.pttl(bench.fence), enough);

    await bench.redis.pexpire(bench.fence, LEASE_MS + FENCE_KEEP_MS - 1_000);
    await bench.renew(token, fence, LEASE_MS, 0);
    expectLife(await bench.redis.pttl(bench.fence), LEASE_MS + 2 * FENCE_KEEP_MS);
  });

  it('reserves numbers above those that were used when the fence is gone', async () => {
    const { bench, token, fence } = await heldBench();
    await bench.redis.del(bench.fence);

    expect(await bench.renew(token, fence, LEASE_MS, 0)).toEqual([
      String(fence + LARGEST_FENCE_BLOCK),
      0,
    ]);
  });

  it('reserves numbers of the present for a holder that knows none of its own, although the fence is gone', async () => {
    const { bench, token } = await heldBench();
    await bench.redis.del(bench.fence);
    const [last] = (await bench.renew(token, 0)) as [string, number];
    expect(Number(last) / 1_000).toBeGreaterThan(Date.now() - 60_000);
  });

  it('never shortens a lease [R10]', async () => {
    const { bench, token, fence } = await heldBench();

    await bench.renew(token, fence, 1_000);

    expectLife(await bench.lockLifeMs(), LEASE_MS);
  });

  it('never lowers the stored bound', async () => {
    const { bench, token, fence } = await heldBench();

    expect(await bench.renew(token, fence - 5)).toEqual([String(fence + BLOCK), 0]);
  });

  it.each([
    ['a free lock', null],
    ['a lock of another token', `${'b'.repeat(32)}:1`],
    ['a foreign lock', 'somebody'],
  ])('answers {} for %s, and creates nothing [R11, D115]', async (_what, value) => {
    const bench = newBench();
    if (value !== null) await bench.redis.set(bench.lock, value, 'PX', 100_000);

    expect(await bench.renew(bench.deadToken(), 5)).toEqual([]);

    expect(await bench.state()).toEqual({ lock: value, queue: [], fence: null });
    if (value !== null) expectLife(await bench.lockLifeMs(), 100_000);
  });

  it('answers each lease in the order of the request, whatever is wrong with the others', async () => {
    const ours = await Promise.all(Array.from({ length: 4 }, () => heldBench()));
    const [first, wrongQueue, wrongFence, last] = ours as [
      (typeof ours)[0],
      (typeof ours)[0],
      (typeof ours)[0],
      (typeof ours)[0],
    ];
    const hash = newBench();
    const { redis } = hash;
    await redis.set(wrongQueue.bench.queue, 'text', 'PX', 100_000);
    await redis.del(wrongFence.bench.fence);
    await redis.rpush(wrongFence.bench.fence, 'list');
    await redis.pexpire(wrongFence.bench.fence, 100_000);
    await redis.hset(hash.lock, 'owner', '1');
    await redis.pexpire(hash.lock, 100_000);
    const others = [newBench(), hash];
    const stranger = { used: 1, token: newBench().deadToken() };

    const replies = await newBench().renewAll([
      { ...first, used: first.fence },
      ...others.map((bench) => ({ ...stranger, bench })),
      { ...wrongQueue, used: wrongQueue.fence },
      { ...wrongFence, used: wrongFence.fence },
      { ...last, used: last.fence },
    ]);

    const renewed = ({ fence }: { fence: number }) => [String(fence + BLOCK), 0];
    expect(replies).toEqual([
      renewed(first),
      [],
      [],
      renewed(wrongQueue),
      renewed(wrongFence),
      renewed(last),
    ]);
    expect(await redis.type(hash.lock)).toBe('hash');
  });

  it('is refused, not answered, by a replica that has lost its master', async () => {
    const replica = await startRedisServer();
    const demoted = new Redis(replica.url, { enableReadyCheck: false });
    afterTest(() => demoted.disconnect());
    const bench = new ScriptBench(demoted);
    const token = bench.deadToken();
    const { fence } = granted(await bench.acquire(token), token);
    await bench.renew(token, fence);
    await demoted.config('SET', 'replica-serve-stale-data', 'no');
    await demoted.replicaof('127.0.0.1', 1);

    await expect(bench.renew(token, fence)).rejects.toThrow(/stale|MASTERDOWN|READONLY/);
  });
});
