import { describe, expect, it } from '@jest/globals';
import { expectLife, granted, queued } from '../../support/script-replies.js';
import { useScripts } from '../../support/use-scripts.js';

const { contendedBench } = useScripts();

/** The lock has lapsed, one process waits, and the one that waited before it has lost its position. */
async function lapsedBench() {
  const { bench, waiting, score } = await contendedBench();
  const next = await bench.peer();
  const second = next.token();
  await bench.acquire(second);
  await bench.redis.zrem(bench.queue, waiting);
  await bench.redis.del(bench.lock);
  return { bench, waiting, score, second };
}

describe('a position in the queue', () => {
  it('is not reclaimed while a lapsed lease is remembered: its owner may have had its turn [R14]', async () => {
    const { bench, waiting, score } = await contendedBench();
    const next = await bench.peer();
    const second = next.token();
    const place = queued(await bench.acquire(second), second).score;
    await bench.redis.zrem(bench.queue, waiting); // its turn has come,
    await bench.redis.del(bench.lock); // and passed unused
    const fresh = next.token();
    granted(await bench.recheck(second, fresh, place), fresh);
    const later = bench.deadToken();
    const last = queued(await bench.acquire(later), later).score;
    const back = bench.deadToken();

    expect(Number(queued(await bench.recheck(waiting, back, score), back).score)).toBeGreaterThan(
      Number(last),
    );

    const again = bench.deadToken();
    queued(await bench.acquire(again, { score }), again);
    expect(await bench.waiting()).toEqual([later, back, again]);
    expectLife(await bench.redis.pttl(bench.lapsed), 60_000);
  });

  it('is not reclaimed by the process that finds that the lock has lapsed', async () => {
    const { bench, waiting, score, second } = await lapsedBench();
    const back = bench.deadToken();

    queued(await bench.recheck(waiting, back, score), back);

    expect(await bench.state()).toMatchObject({ lock: second });
    expect(await bench.waiting()).toEqual([back]);
  });

  it.each(['a single try', 'a try of several keys', 'a last try'])(
    'is not reclaimed when %s has found that the lock has lapsed',
    async (what) => {
      const { bench, waiting, score, second } = await lapsedBench();
      const token = bench.deadToken();
      if (what === 'a single try') await bench.acquire(token, { nowait: true });
      else if (what === 'a last try') await bench.leave(token, { take: true });
      else await bench.acquireTogether([{ bench, token }]);
      const later = bench.deadToken();
      await bench.acquire(later);
      const back = bench.deadToken();

      queued(await bench.recheck(waiting, back, score), back);

      expect(await bench.state()).toMatchObject({ lock: second });
      expect(await bench.waiting()).toEqual([later, back]);
    },
  );

  it('is kept by a waiter that has checked twice with the same token, even after a lease has lapsed', async () => {
    const { bench, waiting, score } = await contendedBench();
    const later = bench.deadToken();
    await bench.acquire(later);
    await bench.redis.set(bench.lapsed, '1', 'PX', 60_000);
    const fresh = bench.deadToken();
    for (const time of ['first', 'second']) {
      const reply = queued(await bench.recheck(waiting, fresh, score), fresh);
      expect([time, reply.score]).toEqual([time, score]);
    }
    expect(await bench.waiting()).toEqual([fresh, later]);
  });

  it('is kept by a waiter that is still in the queue, even after a lease has lapsed', async () => {
    const { bench, waiter, waiting, score } = await contendedBench();
    await bench.acquire(bench.deadToken(), { score: Number(score) + 5 });
    await bench.redis.del(bench.lock);
    granted(await bench.acquire(waiting), waiting);
    const behind = waiter.token();
    const place = queued(await bench.acquire(behind), behind).score;
    const last = bench.deadToken();
    await bench.acquire(last);
    const fresh = waiter.token();

    expect(queued(await bench.recheck(behind, fresh, place), fresh).score).toBe(place);
  });
});
