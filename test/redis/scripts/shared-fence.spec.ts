/** On a single server, all locks share a fence: one key, which is never lowered and does not expire. */
import { describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { LARGEST_FENCE_BLOCK } from '../../../libs/nestjs-locked/src/core/store/fence-block.js';
import { runScript } from '../../support/run-script.js';
import { LEASE_MS, ScriptBench } from '../../support/script-bench.js';
import { BLOCK, granted, queued } from '../../support/script-replies.js';
import { uniqueKey } from '../../support/unique-key.js';
import { useScripts } from '../../support/use-scripts.js';

const HOUR_MICROS = 3_600_000_000;

const { newBench, serverMicros } = useScripts();

/** Locks that share a fence. */
function several(count: number): ScriptBench[] {
  const { redis } = newBench();
  const prefix = `${uniqueKey('shared')}:`;
  return Array.from({ length: count }, (_, n) => new ScriptBench(redis, `${n}`, prefix, true));
}

function pair(): [ScriptBench, ScriptBench] {
  return several(2) as [ScriptBench, ScriptBench];
}

/** A lock with a holder and a waiter. */
async function contended(bench: ScriptBench) {
  const [holder, waiter] = [await bench.peer(), await bench.peer()];
  const [token, waiting] = [holder.token(), waiter.token()];
  const { fence } = granted(await bench.acquire(token), token);
  queued(await bench.acquire(waiting), waiting);
  return { holder, waiter, token, waiting, fence };
}

async function numbersOfGrant(waiter: { heard(): Promise<string[]> }) {
  const [message = ''] = await waiter.heard();
  const [, first, last] = /^g \S+ (\d+) (\d+)/.exec(message) ?? [];
  return { first: Number(first), last: Number(last) };
}

describe('a shared fence', () => {
  it('is all that a free lock leaves in Redis', async () => {
    const benches = several(100);
    const { redis, prefix } = benches[0] as ScriptBench;
    for (const bench of benches) {
      const token = bench.deadToken();
      const { fence } = granted(await bench.acquire(token), token);
      await bench.release(token, fence);
    }
    expect(await redis.keys(`${prefix}*`)).toEqual([`${prefix}fence`]);
    expect(await redis.pttl(`${prefix}fence`)).toBe(-1);
  });

  it('rises with each grant of any lock, by one number while nobody waits', async () => {
    const benches = several(20);
    let highest = 0;
    for (const bench of [...benches, ...benches.toReversed()]) {
      const token = bench.deadToken();
      const { fence, blockEnd } = granted(await bench.acquire(token), token);
      expect(fence).toBeGreaterThan(highest);
      expect(blockEnd).toBe(fence);
      highest = blockEnd;
      await bench.release(token, fence);
    }
    expect(await benches[0]?.state()).toMatchObject({ fence: String(highest) });
  });

  it('rises by one number even if the short path of an acquire cannot read it', async () => {
    const [bench] = pair();
    const passed = (await serverMicros()) - 1_000;
    await bench.redis.set(bench.fence, `${passed} ${passed}`);
    const token = bench.deadToken();
    const reply = await bench.acquire(token);
    expect(reply[0]).toBe('granted');
    const { fence, blockEnd } = granted(reply, token);
    expect(fence).toBeGreaterThan(passed);
    expect(blockEnd).toBe(fence);
  });

  it.each([
    ['released', HOUR_MICROS],
    ['released', BLOCK],
    ['handed over', HOUR_MICROS],
    ['left for a new place', HOUR_MICROS],
    ['taken back', HOUR_MICROS],
    ['taken back', BLOCK],
  ])(
    'is not lowered when a lease is %s, because others have numbers below it, up to %d more',
    async (how, more) => {
      const [bench, other] = pair();
      const { holder, token, fence, waiter } = await contended(bench);
      const theirs = other.deadToken();
      granted(await other.acquire(theirs), theirs);
      const [last = 0] = await other.renew(theirs, fence + more + 5);

      if (how === 'handed over') await bench.release(token, fence + 5);
      else if (how === 'left for a new place')
        await bench.release(token, fence + 5, holder.token());
      else if (how === 'taken back')
        await runScript(bench.redis, bench.scripts.takeBack, bench.keys, [token, '', fence + 5, 0]);
      else {
        await bench.redis.del(bench.queue);
        await bench.release(token, fence + 5);
      }

      const { fence: stored } = await bench.state();
      expect(Number(stored)).toBeGreaterThanOrEqual(Number(last));
      if (how !== 'released') {
        expect((await numbersOfGrant(waiter)).first).toBeGreaterThan(Number(last));
      }
    },
  );

  it('is stored with the time of its writing if it is ahead of the clock by a second', async () => {
    const [bench] = pair();
    for (const aheadMs of [1_000, 4_000]) {
      await bench.redis.set(bench.fence, String((await serverMicros()) + aheadMs * 1_000));
      const token = bench.deadToken();
      granted(await bench.acquire(token), token);
      expect(await bench.redis.get(bench.fence)).toMatch(/^\d+ \d+$/);
      await bench.release(token, 0);
    }
  });

  it('that is too high to be counted on is refused, and not issued twice', async () => {
    const [bench, other] = pair();
    const token = bench.deadToken();
    const { fence } = granted(await bench.acquire(token), token);
    await bench.redis.set(bench.fence, String(2 ** 53));
    const message = `the fencing number in ${bench.fence} is 9007199254`;
    await expect(other.acquire(other.deadToken())).rejects.toThrow(message);
    await expect(bench.renew(token, 0)).rejects.toThrow(message);
    expect(await other.redis.exists(other.lock)).toBe(0);
    expect((await bench.release(token, fence))[0]).toBe('released');
  });

  it('is above the numbers of a holder that vanished, for every lock', async () => {
    const [bench, other] = pair();
    const token = bench.deadToken();
    const { fence } = granted(await bench.acquire(token), token);
    const [last = 0] = await bench.renew(token, fence, LEASE_MS, LARGEST_FENCE_BLOCK);
    await bench.redis.del(bench.lock);

    for (const each of [other, bench]) {
      const next = each.deadToken();
      expect(granted(await each.acquire(next), next).fence).toBeGreaterThan(Number(last));
    }
  });

  it('is above the numbers that a renewal has raised after those in a database, for every lock', async () => {
    const [bench, other] = pair();
    const token = bench.deadToken();
    granted(await bench.acquire(token), token);
    const seen = (await serverMicros()) + HOUR_MICROS;
    expect(await bench.renew(token, seen)).toEqual([String(seen + BLOCK), 0]);

    const next = other.deadToken();
    const { fence, blockEnd } = granted(await other.acquire(next), next);
    expect(fence).toBeGreaterThan(seen + BLOCK);
    expect(blockEnd).toBe(fence);
  });

  it('of a renewal overlaps with those of other locks, and is not written for numbers that it has', async () => {
    const [bench, other] = pair();
    const [token, theirs] = [bench.deadToken(), other.deadToken()];
    const { fence } = granted(await bench.acquire(token), token);
    granted(await other.acquire(theirs), theirs);
    const [last] = await other.renew(theirs, fence + HOUR_MICROS);
    const before = await bench.redis.get(bench.fence);

    expect(await bench.renew(token, fence)).toEqual([last, 0]);
    expect(await bench.redis.get(bench.fence)).toBe(before); // with the time of its writing
  });

  it('gives new numbers to a holder that does not know which it has used', async () => {
    const [bench, other] = pair();
    const { token, waiting, fence, waiter } = await contended(bench);
    await bench.release(token, fence);
    const { last } = await numbersOfGrant(waiter);
    const theirs = other.deadToken();
    const { fence: highest } = granted(await other.acquire(theirs), theirs);

    const [end] = await bench.renew(waiting, 0);
    expect(Number(end) - BLOCK).toBeGreaterThanOrEqual(Math.max(last, highest));
  });

  it('that was deleted begins with the clock, which has passed the numbers of every holder', async () => {
    const [bench, other] = pair();
    const token = bench.deadToken();
    const { fence } = granted(await bench.acquire(token), token);
    const [last] = await bench.renew(token, fence, LEASE_MS, LARGEST_FENCE_BLOCK);
    await bench.redis.del(bench.fence);
    await sleep(LARGEST_FENCE_BLOCK / 1_000);

    expect(await bench.renew(token, fence, LEASE_MS, 0)).toEqual(['0', 0]);
    await bench.redis.del(bench.lock);
    for (const each of [other, bench]) {
      const next = each.deadToken();
      expect(granted(await each.acquire(next), next).fence).toBeGreaterThan(Number(last));
    }
  });

  it('far ahead of the clock grows by single numbers and at half the speed of the clock', async () => {
    const benches = several(50);
    const { redis, fence: name } = benches[0] as ScriptBench;
    const clock = await serverMicros();
    const ahead = clock + HOUR_MICROS;
    await redis.set(name, `${ahead} ${clock}`);
    let before = ahead;
    for (const bench of benches) {
      const { token, fence, waiter } = await contended(bench);
      await bench.release(token, fence);
      const { first, last } = await numbersOfGrant(waiter);
      expect(first).toBeGreaterThan(before);
      expect(last).toBe(first);
      before = last;
    }
    const tookMicros = (await serverMicros()) - clock;
    expect(before - ahead).toBeLessThan(tookMicros / 2 + 3 * benches.length);
  });

  it('rises within a batch, although an operation in it has issued other numbers than were reserved', async () => {
    const [bench, other] = pair();
    const [held, again, third, theirs] = Array.from({ length: 4 }, () => bench.deadToken());
    const [first = '', second = '', last = '', free = ''] = [held, again, third, theirs];
    granted(await bench.acquire(first), first);
    const parts = [
      [first, 0, second, LEASE_MS], // granted again at once
      [second],
      [last, LEASE_MS],
      [free, LEASE_MS],
    ];
    const keys = [bench, bench, bench, other].flatMap((each) => each.keys);
    const replies = (await runScript(bench.redis, bench.scripts.batch!, keys, [
      'DAbb',
      ...parts.flat(),
    ])) as (string | string[])[];

    const [requeued = [], released, acquired = [], ofOther = []] = replies;
    expect(released).toBe('released');
    expect(requeued[0]).toBe('granted');
    expect(Number(acquired[2])).toBeGreaterThan(Number(requeued[3]));
    expect(Number(ofOther[2])).toBeGreaterThan(Number(acquired[2]));
    expect(await bench.state()).toMatchObject({ lock: last, fence: String(ofOther[3]) });
  });

  it('of several locks taken together is written above all, and not lowered by the last', async () => {
    const benches = several(3);
    const tokens = benches.map((bench) => bench.deadToken());
    const asked = benches.map((bench, i) => ({ bench, token: tokens[i] as string }));
    const [first] = benches as [ScriptBench];
    granted(await first.acquire(tokens[0] as string), tokens[0] as string); // as if it were sent twice
    const { fence: before } = await first.state();

    const [kind, ...numbers] = await first.acquireTogether(asked);

    expect(kind).toBe('granted');
    for (const [fence] of numbers) expect(Number(fence)).toBeGreaterThan(Number(before));
    const highest = Math.max(...numbers.map(([, end]) => Number(end)));
    expect(Number((await first.state()).fence)).toBeGreaterThanOrEqual(highest);
  });
});
