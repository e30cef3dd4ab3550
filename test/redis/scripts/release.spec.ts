import { describe, expect, it } from '@jest/globals';
import { ACCEPT_MS, FENCE_KEEP_MS, LEASE_MS } from '../../support/script-bench.js';
import { BLOCK, expectLife, granted, queued } from '../../support/script-replies.js';
import { useScripts } from '../../support/use-scripts.js';

const { heldBench, contendedBench, connect } = useScripts();

describe('release', () => {
  it('deletes a lock that nobody waits for, and gives the unused numbers back [R5]', async () => {
    const { bench, token, fence } = await heldBench();

    expect(await bench.release(token, fence + 3)).toEqual(['released']);

    expect(await bench.state()).toEqual({ lock: null, queue: [], fence: String(fence + 3) });
    expectLife(await bench.redis.pttl(bench.fence), FENCE_KEEP_MS);
  });

  it('repeated is lost, and changes nothing [R49]', async () => {
    const { bench, token, fence } = await heldBench();
    await bench.release(token, fence);
    const before = await bench.state();

    expect(await bench.release(token, fence)).toEqual(['lost']);

    expect(await bench.state()).toEqual(before);
  });

  it('keeps the stored bound when it is unknown which numbers were used', async () => {
    const { bench, token, fence } = await heldBench();

    expect(await bench.release(token, 0)).toEqual(['released']);

    expect(await bench.state()).toEqual({ lock: null, queue: [], fence: String(fence + BLOCK) });
  });

  it('gives back a whole block if no number of it was used', async () => {
    const { bench, token, fence } = await heldBench();

    expect(await bench.release(token, fence - 1)).toEqual(['released']);

    expect(await bench.state()).toEqual({ lock: null, queue: [], fence: String(fence - 1) });
  });

  it('without a number to report hands the lock to the first waiter', async () => {
    const { bench, token, waiting, waiter } = await contendedBench();

    expect(await bench.release(token, 0)).toEqual(['released']);

    expect(await bench.state()).toMatchObject({ lock: waiting, queue: [] });
    expect(await waiter.heard()).toEqual([expect.stringMatching(`^g ${waiting} `)]);
  });

  it('without a number to report by somebody else, or of a lock that is gone, is lost', async () => {
    const { bench, token } = await heldBench();

    expect(await bench.release(bench.deadToken(), 0)).toEqual(['lost']);
    expect(await bench.state()).toMatchObject({ lock: token });
    await bench.release(token, 0);
    expect(await bench.release(token, 0)).toEqual(['lost']);
  });

  it('by another process is lost and removes only its own position in the queue [R11]', async () => {
    const { bench, token, fence, waiting } = await contendedBench();

    expect(await bench.release(waiting, 1)).toEqual(['lost']);

    expect(await bench.state()).toEqual({ lock: token, queue: [], fence: String(fence + BLOCK) });
    expectLife(await bench.lockLifeMs(), LEASE_MS);
  });

  it('hands the lock to the first waiter for acceptMs, and notifies it and the next one [R12]', async () => {
    const { bench, token, fence, waiter, waiting } = await contendedBench('a b  c');
    const next = await bench.peer();
    const second = next.token();
    await bench.acquire(second);
    const used = fence + 3_600_000_000; // far ahead of the server's clock, so that no other is reserved

    expect(await bench.release(token, used)).toEqual(['released']);

    expect(await bench.state()).toMatchObject({ lock: waiting, fence: String(used + 1) });
    expectLife(await bench.lockLifeMs(), ACCEPT_MS);
    expect(await bench.waiting()).toEqual([second]);
    expect(await waiter.heard()).toEqual([
      `g ${waiting} ${used + 1} ${used + 1} 1 ${ACCEPT_MS} a b  c`,
    ]);
    expect(await next.heard()).toEqual([`h ${second} ${ACCEPT_MS} a b  c`]);
  });

  it('hands it to a waiter without messages for a second at most, and notifies the next one of that', async () => {
    const { bench, token, fence } = await heldBench();
    const deaf = bench.deafToken();
    await bench.acquire(deaf);
    const next = await bench.peer();
    const waiting = next.token();
    await bench.acquire(waiting);

    expect(await bench.release(token, fence)).toEqual(['released']);

    expect(await bench.state()).toMatchObject({ lock: deaf });
    expectLife(await bench.lockLifeMs(), 1_000);
    expect(await next.heard()).toEqual([`h ${waiting} 1000 stock:42`]);
  });

  it('repeated after a hand-over is lost, and the next one keeps the lock', async () => {
    const { bench, token, fence, waiter, waiting } = await contendedBench();
    await bench.release(token, fence);
    const before = await bench.state();
    await waiter.heard();

    expect(await bench.release(token, fence)).toEqual(['lost']);

    expect(await bench.state()).toEqual(before);
    expect(before.lock).toBe(waiting);
    expect(await waiter.heard()).toEqual([]);
  });

  it('skips waiters that do not listen before anything is published [R3]', async () => {
    const { bench, token, fence } = await heldBench();
    const [dead, alsoDead] = [bench.deadToken(), bench.deadToken()];
    const live = await bench.peer();
    const waiting = live.token();
    for (const each of [dead, alsoDead, waiting]) await bench.acquire(each);
    const watch = connect();
    const channels: string[] = [];
    watch.on('pmessage', (_pattern: string, channel: string) => channels.push(channel));
    await watch.psubscribe(`${bench.inboxPrefix}*`);

    expect(await bench.release(token, fence)).toEqual(['released']);

    expect(await bench.state()).toMatchObject({ lock: waiting, queue: [] });
    await live.heard();
    expect(new Set(channels)).toEqual(new Set([live.channel]));
  });

  it('deletes the lock when only dead waiters are left, although a monitor listens to every channel [R3]', async () => {
    const { bench, token, fence } = await heldBench();
    await bench.acquire(bench.deadToken());
    const monitor = connect();
    await monitor.psubscribe('*');

    expect(await bench.release(token, fence)).toEqual(['released']);

    expect(await bench.state()).toEqual({ lock: null, queue: [], fence: String(fence) });
  });

  it('serves the live waiter behind hundreds of dead ones in the same call [R28]', async () => {
    const { bench, token, fence } = await heldBench();
    const [live, next] = [await bench.peer(), await bench.peer()];
    const [waiting, second] = [live.token(), next.token()];
    await bench.enqueue(...bench.deadTokens(400), waiting, ...bench.deadTokens(400), second);

    expect(await bench.release(token, fence)).toEqual(['released']);

    expect(await bench.state()).toMatchObject({ lock: waiting });
    expect(await bench.waiting()).toEqual([second]);
    expect(await live.heard()).toEqual([
      expect.stringMatching(`^g ${waiting} \\d+ \\d+ 1 ${ACCEPT_MS} `),
    ]);
    expect(await next.heard()).toEqual([`h ${second} ${ACCEPT_MS} stock:42`]);
  });

  it('skips dead waiters, and tells the first live one how long the lock is kept [R12]', async () => {
    const { bench, token, fence } = await heldBench();
    const live = await bench.peer();
    const waiting = live.token();
    await bench.enqueue(...bench.deadTokens(3), waiting);

    expect(await bench.release(token, fence, '', 50_000)).toEqual(['released']);

    expect(await bench.state()).toMatchObject({ lock: `kept:${token}` });
    expect(await live.heard()).toEqual([`h ${waiting} 50000 stock:42`]);
  });
});

describe('release with a new token', () => {
  it('takes the lock again with the full lease when nobody waits [R16]', async () => {
    const { bench, holder, token, fence } = await heldBench();
    const fresh = holder.token();

    const first = granted(await bench.release(token, fence + 5, fresh), fresh);
    expect(first.fence).toBeGreaterThan(fence + 5);
    expect(await bench.state()).toEqual({ lock: fresh, queue: [], fence: String(first.blockEnd) });
    expectLife(await bench.lockLifeMs(), LEASE_MS);

    const again = granted(await bench.release(token, fence + 5, fresh), fresh, 'lost');
    expect(again.fence).toBeGreaterThan(first.blockEnd);
    expect(await bench.state()).toEqual({ lock: fresh, queue: [], fence: String(again.blockEnd) });
  });

  it('takes the lock again when only dead waiters are left [R16]', async () => {
    const { bench, holder, token, fence } = await heldBench();
    await bench.acquire(bench.deadToken());
    const fresh = holder.token();

    granted(await bench.release(token, fence, fresh), fresh);
    expect(await bench.state()).toMatchObject({ lock: fresh, queue: [] });
  });

  it('hands the lock over and goes behind everybody', async () => {
    const { bench, holder, token, fence, waiter, waiting } = await contendedBench();
    const next = await bench.peer();
    const second = next.token();
    await bench.acquire(second);
    const fresh = holder.token();

    const { score, pttl } = queued(await bench.release(token, fence, fresh), fresh);
    const after = await bench.state();

    expectLife(pttl, ACCEPT_MS);
    expect(after.lock).toBe(waiting);
    expect(await bench.waiting()).toEqual([second, fresh]);
    expect(await waiter.heard()).toEqual([expect.stringMatching(`^g ${waiting} \\d+ \\d+ 2 `)]);
    expect(await next.heard()).toEqual([`h ${second} ${ACCEPT_MS} stock:42`]);

    expect(queued(await bench.release(token, fence, fresh), fresh, 'lost').score).toBe(score);
    expect(await bench.state()).toEqual(after);
    expect(await waiter.heard()).toEqual([`w ${waiting} stock:42`]);
  });

  it('is an ordinary acquire when the lock was lost and is free', async () => {
    const { bench, token, fence } = await heldBench();
    await bench.redis.del(bench.lock);
    const fresh = bench.deadToken();

    const { fence: next } = granted(await bench.release(token, fence, fresh), fresh, 'lost');

    expect(next).toBeGreaterThan(fence + BLOCK);
  });

  it('is an ordinary acquire when another process has got the lock', async () => {
    const { bench, holder, token, fence, waiter, waiting } = await contendedBench();
    await bench.redis.set(bench.lock, waiting, 'PX', 100_000);
    await bench.redis.zrem(bench.queue, waiting);
    const fresh = holder.token();

    const { score, pttl } = queued(await bench.release(token, fence, fresh), fresh, 'lost');

    expectLife(pttl, 100_000);
    expect(await bench.state()).toMatchObject({ lock: waiting, queue: [fresh, score] });
    expect(await waiter.heard()).toEqual([`w ${waiting} stock:42`]);
  });
});
