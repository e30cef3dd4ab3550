import { describe, expect, it } from '@jest/globals';
import { ACCEPT_MS, LEASE_MS } from '../../support/script-bench.js';
import { BLOCK, expectLife, granted, queued } from '../../support/script-replies.js';
import { useScripts } from '../../support/use-scripts.js';

const { contendedBench, heldBench } = useScripts();

describe('recheck', () => {
  it('puts the new token in the position of the old one, and asks again [R2]', async () => {
    const { bench, holder, token, waiter, waiting, score } = await contendedBench();
    const behind = bench.deadToken();
    await bench.acquire(behind);
    await holder.heard();
    const fresh = waiter.token();

    for (const attempt of ['first', 'repeated']) {
      const reply = queued(await bench.recheck(waiting, fresh, score), fresh);

      expect([attempt, reply.score]).toEqual([attempt, score]);
      expectLife(reply.pttl, LEASE_MS);
      expect(await bench.waiting()).toEqual([fresh, behind]);
      expect(await holder.heard()).toEqual([`w ${token} stock:42`]);
    }
  });

  it('tells only the first of the waiters without messages to check again soon', async () => {
    const { bench } = await heldBench();
    const [first, second] = [bench.deafToken(), bench.deafToken()];
    expect(queued(await bench.acquire(first), first).pttl).toBeLessThanOrEqual(50);
    const { pttl, score } = queued(await bench.acquire(second), second);
    expectLife(pttl, LEASE_MS);
    const again = bench.deafToken();
    expectLife(queued(await bench.recheck(second, again, score), again).pttl, LEASE_MS);
  });

  it('puts a dropped waiter back at its old position [R14]', async () => {
    const { bench, waiting, score } = await contendedBench();
    const behind = bench.deadToken();
    await bench.acquire(behind);
    await bench.redis.zrem(bench.queue, waiting);
    const fresh = bench.deadToken();

    expect(queued(await bench.recheck(waiting, fresh, score), fresh).score).toBe(score);

    expect(await bench.waiting()).toEqual([fresh, behind]);
  });

  it('keeps the position that Redis has, not the one that it is given', async () => {
    const { bench, waiting, score } = await contendedBench();
    const fresh = bench.deadToken();

    expect(queued(await bench.recheck(waiting, fresh, 1), fresh).score).toBe(score);
  });

  it('extends the expiry of the queue [R31]', async () => {
    const { bench, waiting, score } = await contendedBench();
    await bench.redis.pexpire(bench.queue, 30_000);

    await bench.recheck(waiting, bench.deadToken(), score);

    expectLife(await bench.redis.pttl(bench.queue), 60_000);
  });

  it('finds a grant whose message was lost: the old token, extended to the full lease', async () => {
    const { bench, token, fence, waiting, score } = await contendedBench();
    await bench.release(token, fence);
    expectLife(await bench.lockLifeMs(), ACCEPT_MS);
    const fresh = bench.deadToken();

    for (const attempt of ['first', 'repeated']) {
      granted(await bench.recheck(waiting, fresh, score), waiting);

      expect([attempt, await bench.state()]).toEqual([
        attempt,
        expect.objectContaining({ lock: waiting, queue: [] }),
      ]);
      expectLife(await bench.lockLifeMs(), LEASE_MS);
    }
  });

  it('finds a grant of its new token when it is repeated', async () => {
    const { bench, token, fence, waiter, waiting, score } = await contendedBench();
    const fresh = waiter.token();
    await bench.recheck(waiting, fresh, score);
    await bench.release(token, fence);

    granted(await bench.recheck(waiting, fresh, score), fresh);
    expect(await bench.state()).toMatchObject({ lock: fresh, queue: [] });
  });

  it('takes a lock whose lease has ended', async () => {
    const { bench, waiting, score } = await contendedBench();
    await bench.redis.del(bench.lock);
    const fresh = bench.deadToken();

    granted(await bench.recheck(waiting, fresh, score), fresh);
    granted(await bench.recheck(waiting, fresh, score), fresh);

    expect(await bench.state()).toMatchObject({ lock: fresh, queue: [] });
    expectLife(await bench.lockLifeMs(), LEASE_MS);
  });

  it('repeated after its new token has joined, takes a lock whose lease has ended', async () => {
    const { bench, waiter, waiting, score } = await contendedBench();
    const fresh = waiter.token();
    queued(await bench.recheck(waiting, fresh, score), fresh);
    await bench.redis.del(bench.lock);

    granted(await bench.recheck(waiting, fresh, score), fresh);

    expect(await bench.state()).toMatchObject({ lock: fresh, queue: [] });
    expect(await waiter.heard()).toEqual([]);
  });

  it('repeated after its grant has lapsed, gets the lock again, and the confirmation has its numbers', async () => {
    const { bench, token, fence, waiter, waiting, score } = await contendedBench();
    const fresh = waiter.token();
    queued(await bench.recheck(waiting, fresh, score), fresh);
    await bench.release(token, fence);
    const [message] = await waiter.heard();
    const first = Number(/^g \S+ (\d+)/.exec(message as string)?.[1]);
    const [confirmed] = await bench.renew(fresh, 0);
    expect(Number(confirmed) - BLOCK).toBeGreaterThanOrEqual(first);
    await bench.redis.del(bench.lock); // it lapses
    const other = bench.deadToken();
    const between = granted(await bench.acquire(other), other);
    await bench.release(other, between.fence);

    const again = granted(await bench.recheck(waiting, fresh, score), fresh);
    expect(again.fence).toBeGreaterThan(between.fence);
    const [last] = await bench.renew(fresh, 0);
    expect(Number(last) - BLOCK).toBeGreaterThanOrEqual(again.blockEnd);
  });

  it('gives a lock whose lease has ended to an earlier waiter', async () => {
    const { bench, waiter, waiting } = await contendedBench();
    const behind = bench.deadToken();
    const { score } = queued(await bench.acquire(behind), behind);
    await bench.redis.del(bench.lock);
    const fresh = bench.deadToken();

    const reply = queued(await bench.recheck(behind, fresh, score), fresh);

    expect(reply.score).toBe(score);
    expectLife(reply.pttl, ACCEPT_MS);
    expect(await bench.state()).toMatchObject({ lock: waiting, queue: [fresh, score] });
    expect(await waiter.heard()).toEqual([expect.stringMatching(`^g ${waiting} `)]);
  });
});
