import { describe, expect, it } from '@jest/globals';
import { ACCEPT_MS, FENCE_KEEP_MS, LEASE_MS } from '../../support/script-bench.js';
import { BLOCK, expectLife, granted, queued } from '../../support/script-replies.js';
import { useScripts } from '../../support/use-scripts.js';

const { newBench, heldBench, contendedBench, connect, serverMicros } = useScripts();

describe('acquire', () => {
  it('takes a free lock for leaseMs', async () => {
    const bench = newBench();
    const token = bench.deadToken();

    const before = await serverMicros();
    const { fence, blockEnd, waiters } = granted(await bench.acquire(token), token);
    const after = await serverMicros();

    expect(waiters).toBe(0);
    expect(fence).toBeGreaterThanOrEqual(before);
    expect(fence).toBeLessThanOrEqual(after);
    expect(await bench.state()).toEqual({ lock: token, queue: [], fence: String(blockEnd) });
    expectLife(await bench.lockLifeMs(), LEASE_MS);
    expectLife(await bench.redis.pttl(bench.fence), LEASE_MS + FENCE_KEEP_MS);
  });

  it('repeated by the holder never shortens its lease [R10]', async () => {
    const { bench, token } = await heldBench();

    granted(await bench.acquire(token, { leaseMs: 1_000 }), token);

    expectLife(await bench.lockLifeMs(), LEASE_MS);
  });

  it('repeated by the holder grants the same token again with numbers above the block [D105]', async () => {
    const { bench, token, fence } = await heldBench();

    const again = granted(await bench.acquire(token), token);

    expect(again.fence).toBeGreaterThan(fence + BLOCK);
    expect(await bench.state()).toEqual({ lock: token, queue: [], fence: String(again.blockEnd) });
    expectLife(await bench.lockLifeMs(), LEASE_MS);
  });

  it('repeated by the holder reports how many wait', async () => {
    const { bench, token } = await contendedBench();

    expect(granted(await bench.acquire(token), token).waiters).toBe(1);
  });

  it('joins the queue of a held lock, reports how long it lasts, and asks its holder for it', async () => {
    const { bench, holder, token } = await heldBench('stock 42 größe');
    const waiting = bench.deadToken();

    const before = await serverMicros();
    const { score, pttl, foreign } = queued(await bench.acquire(waiting), waiting);
    const after = await serverMicros();

    expect(Number(score)).toBeGreaterThanOrEqual(before);
    expect(Number(score)).toBeLessThanOrEqual(after);
    expectLife(pttl, LEASE_MS);
    expect(foreign).toBe(0);
    expect(await bench.state()).toMatchObject({ lock: token, queue: [waiting, score] });
    expectLife(await bench.redis.pttl(bench.queue), 60_000);
    expect(await holder.heard()).toEqual([`w ${token} stock 42 größe`]);
  });

  it('repeated by a waiter keeps its position and asks again', async () => {
    const { bench, holder, token, waiting, score } = await contendedBench();
    const behind = bench.deadToken();
    await bench.acquire(behind);
    await holder.heard();

    expect(queued(await bench.acquire(waiting), waiting).score).toBe(score);

    expect(await bench.waiting()).toEqual([waiting, behind]);
    expect(await holder.heard()).toEqual([`w ${token} stock:42`]);
  });

  it('goes behind everybody, even when the clock of the server has gone back [R30]', async () => {
    const { bench } = await heldBench();
    const future = (await serverMicros()) + 3_600_000_000;
    await bench.enqueue(bench.deadToken());
    await bench.redis.zadd(bench.queue, future, 'x');
    const waiting = bench.deadToken();

    expect(queued(await bench.acquire(waiting), waiting).score).toBe(String(future + 1));
  });

  it('takes the position kept from an earlier attempt', async () => {
    const { bench, waiting, score } = await contendedBench();
    const token = bench.deadToken();
    const kept = String(Number(score) - 1);

    expect(queued(await bench.acquire(token, { score: kept }), token).score).toBe(kept);
    expect(await bench.waiting()).toEqual([token, waiting]);
  });

  it('takes a free lock although it has a kept position', async () => {
    const bench = newBench();
    const token = bench.deadToken();

    granted(await bench.acquire(token, { score: 7 }), token);
  });

  it.each([
    ['a uuid', '2f1c7c1e-6f0f-4c8e-a2a0-1d6a3c9f0b11'],
    ['a short value with a colon', 'abc:1'],
    ['a value that only begins like a token', `${'a'.repeat(32)}:1x`],
    ['nothing', ''],
  ])('reports a holder with %s as foreign, and notifies nobody', async (_what, value) => {
    const bench = newBench();
    await bench.redis.set(bench.lock, value, 'PX', 100_000);
    const monitor = connect();
    const published: string[] = [];
    await monitor.psubscribe(`${bench.prefix}*`);
    monitor.on('pmessage', (_pattern: string, _channel: string, text: string) =>
      published.push(text),
    );
    const peer = await bench.peer();
    const token = peer.token();

    const { pttl, foreign } = queued(await bench.acquire(token), token);

    expectLife(pttl, 100_000);
    expect(foreign).toBe(1);
    await bench.redis.publish(`${bench.prefix}last`, 'last');
    while (published.at(-1) !== 'last')
      await new Promise((resolve) => monitor.once('pmessage', resolve));
    expect(published).toEqual(['last']);
    expect(await bench.state()).toMatchObject({ lock: value });
  });

  it('returns -1 as the remaining time of a foreign lock without an expiry [R19]', async () => {
    const bench = newBench();
    await bench.setEndless(bench.lock, 'somebody');
    const token = bench.deadToken();

    expect(queued(await bench.acquire(token), token)).toMatchObject({ pttl: -1, foreign: 1 });
  });

  it.each(['kept', 'revoked'])('waits for a %s lock as for a lock of ours', async (word) => {
    const bench = newBench();
    await bench.redis.set(bench.lock, `${word}:${bench.deadToken()}`, 'PX', 100_000);
    const token = bench.deadToken();

    const { pttl, foreign } = queued(await bench.acquire(token), token);

    expectLife(pttl, 100_000);
    expect(foreign).toBe(0);
  });

  it('gives a free lock to the head of its queue and waits behind it', async () => {
    const bench = newBench();
    const head = await bench.peer();
    const next = await bench.peer();
    const [first, second] = [head.token(), next.token()];
    await bench.enqueue(first, second);
    const token = bench.deadToken();

    const { pttl, foreign } = queued(await bench.acquire(token), token);

    expectLife(pttl, ACCEPT_MS);
    expect(foreign).toBe(0);
    const { lock, fence } = await bench.state();
    expect(lock).toBe(first);
    expect(await bench.waiting()).toEqual([second, token]);
    expectLife(await bench.lockLifeMs(), ACCEPT_MS);
    const granted = `g ${first} ${Number(fence) - BLOCK} ${fence} 2 ${ACCEPT_MS} stock:42`;
    expect(await head.heard()).toEqual([granted]);
    expect(await next.heard()).toEqual([`h ${second} ${ACCEPT_MS} stock:42`]);
  });

  it('repeated after it gave the lock to the head, changes nothing, and asks the head for it', async () => {
    const bench = newBench();
    const head = await bench.peer();
    const first = head.token();
    await bench.enqueue(first);
    const token = bench.deadToken();
    const { score } = queued(await bench.acquire(token), token);
    const before = await bench.state();
    await head.heard();

    expect(queued(await bench.acquire(token), token).score).toBe(score);

    expect(await bench.state()).toEqual(before);
    expect(await head.heard()).toEqual([`w ${first} stock:42`]);
  });

  it('takes a free lock with the full lease when all earlier waiters are dead [R16]', async () => {
    const bench = newBench();
    await bench.enqueue(bench.deadToken(), bench.deadToken());
    const token = bench.deadToken();

    expect(granted(await bench.acquire(token), token).waiters).toBe(0);

    expect(await bench.state()).toMatchObject({ lock: token, queue: [] });
    expectLife(await bench.lockLifeMs(), LEASE_MS);
  });

  it('repeated by a waiter takes a free lock before later ones', async () => {
    const { bench, waiting } = await contendedBench();
    const later = await bench.peer();
    const behind = later.token();
    await bench.acquire(behind);
    await bench.redis.del(bench.lock);

    expect(granted(await bench.acquire(waiting), waiting).waiters).toBe(1);

    expect(await bench.waiting()).toEqual([behind]);
    expect(await later.heard()).toEqual([]);
  });

  it('is refused for a key of another type, and writes nothing', async () => {
    const bench = newBench();
    await bench.redis.hset(bench.lock, 'owner', '1');
    await bench.redis.pexpire(bench.lock, 100_000);

    await expect(bench.acquire(bench.deadToken())).rejects.toThrow(/WRONGTYPE/);

    expect(await bench.redis.exists(bench.queue, bench.fence)).toBe(0);
  });

  it('is refused for a fence of another type, and leaves the lock free', async () => {
    const bench = newBench();
    await bench.redis.rpush(bench.fence, 'list');
    await bench.redis.pexpire(bench.fence, 100_000);

    await expect(bench.acquire(bench.deadToken())).rejects.toThrow(/WRONGTYPE/);

    expect(await bench.redis.exists(bench.lock, bench.queue)).toBe(0);
  });
});

describe('acquire with nowait', () => {
  it('takes a free lock when all waiters in its queue are dead [R21]', async () => {
    const bench = newBench();
    await bench.enqueue(...bench.deadTokens(3));
    const token = bench.deadToken();

    expect(granted(await bench.acquire(token, { nowait: true }), token).waiters).toBe(0);

    expect(await bench.state()).toMatchObject({ lock: token, queue: [] });
  });

  it('takes a free lock', async () => {
    const bench = newBench();
    const token = bench.deadToken();

    granted(await bench.acquire(token, { nowait: true }), token);
    granted(await bench.acquire(token, { nowait: true }), token);

    expect(await bench.state()).toMatchObject({ lock: token, queue: [] });
  });

  it('is busy for a held lock: joins no queue, but asks for the lock [R21]', async () => {
    const { bench, holder, token } = await heldBench();
    const tried = bench.deadToken();
    const before = await bench.state();

    for (const attempt of ['first', 'repeated']) {
      const [kind, pttl] = (await bench.acquire(tried, { nowait: true })) as [string, number];

      expect([attempt, kind]).toEqual([attempt, 'busy']);
      expectLife(pttl, LEASE_MS);
      expect(await bench.state()).toEqual(before);
      expect(await holder.heard()).toEqual([`w ${token} stock:42`]);
    }
  });

  it('is busy for a foreign lock', async () => {
    const bench = newBench();
    await bench.setEndless(bench.lock, 'somebody');

    expect(await bench.acquire(bench.deadToken(), { nowait: true })).toEqual(['busy', -1, 1]);
  });

  it('gives a free lock to the head of its queue, and is busy [R21]', async () => {
    const bench = newBench();
    const head = await bench.peer();
    const first = head.token();
    await bench.enqueue(first);

    const [kind, pttl] = (await bench.acquire(bench.deadToken(), { nowait: true })) as [
      string,
      number,
    ];

    expect(kind).toBe('busy');
    expectLife(pttl, ACCEPT_MS);
    expect(await bench.state()).toMatchObject({ lock: first, queue: [] });
    expect(await head.heard()).toEqual([expect.stringMatching(`^g ${first} `)]);
  });
});
