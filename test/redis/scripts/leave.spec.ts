import { describe, expect, it } from '@jest/globals';
import { ACCEPT_MS, LEASE_MS } from '../../support/script-bench.js';
import { BLOCK, expectLife, granted } from '../../support/script-replies.js';
import { useScripts } from '../../support/use-scripts.js';

const { newBench, heldBench, contendedBench } = useScripts();

describe('leave', () => {
  it('removes both tokens from the queue [R20]', async () => {
    const { bench, token, waiting } = await contendedBench();
    const [other, stays] = [bench.deadToken(), bench.deadToken()];
    await bench.acquire(other);
    await bench.acquire(stays);

    expect(await bench.leave(waiting, { other })).toEqual(['left']);
    expect(await bench.leave(waiting, { other })).toEqual(['left']);

    expect(await bench.state()).toMatchObject({ lock: token });
    expect(await bench.waiting()).toEqual([stays]);
    expectLife(await bench.lockLifeMs(), LEASE_MS);
  });

  it.each(['token', 'token of the re-check'])(
    'passes on a lock that was granted to the %s meanwhile',
    async (which) => {
      const { bench, token, fence, waiter, waiting } = await contendedBench();
      const gone = bench.deadToken();
      const tokens = which === 'token' ? { token, other: gone } : { token: gone, other: token };

      expect(await bench.leave(tokens.token, tokens)).toEqual(['left']);
      const after = await bench.state();
      expect(after).toMatchObject({ lock: waiting, queue: [] });
      expect(Number(after.fence)).toBeGreaterThan(fence + BLOCK);
      expectLife(await bench.lockLifeMs(), ACCEPT_MS);
      expect(await waiter.heard()).toEqual([expect.stringMatching(`^g ${waiting} `)]);

      expect(await bench.leave(tokens.token, tokens)).toEqual(['left']);
      expect(await bench.state()).toEqual(after);
    },
  );

  it('deletes a lock that was granted meanwhile if nobody else waits for it', async () => {
    const { bench, token, fence } = await heldBench();

    expect(await bench.leave(token)).toEqual(['left']);

    expect(await bench.state()).toEqual({ lock: null, queue: [], fence: String(fence + BLOCK) });
  });

  it.each([
    [`kept:${'a'.repeat(32)}:1`, false],
    [`kept:${'a'.repeat(32)}:1`, true],
    [`revoked:${'a'.repeat(32)}`, false],
    [`revoked:${'a'.repeat(32)}`, true],
  ])(
    'while nobody has the lock, tells who is first then when it comes free (%j, with take: %j)',
    async (value, take) => {
      const bench = newBench();
      await bench.redis.set(bench.lock, value, 'PX', 100_000);
      const waiter = await bench.peer();
      const [token, waiting] = [bench.deadToken(), waiter.token()];
      await bench.enqueue(token, waiting);

      expect(await bench.leave(token, { take })).toEqual(['left']);

      expect(await bench.state()).toMatchObject({ lock: value });
      expect(await bench.waiting()).toEqual([waiting]);
      const [message = ''] = await waiter.heard();
      const [, ms] = new RegExp(`^h ${waiting} (\\d+) `).exec(message) ?? [];
      expectLife(Number(ms), 100_000);
    },
  );

  it.each(['somebody', `kept:${'a'.repeat(32)}:1`])(
    'does not touch the lock of a foreign holder (%j)',
    async (value) => {
      const bench = newBench();
      await bench.redis.set(bench.lock, value, 'PX', 100_000);
      const token = bench.deadToken();
      await bench.acquire(token);

      expect(await bench.leave(token)).toEqual(['left']);

      expect(await bench.state()).toEqual({ lock: value, queue: [], fence: null });
      expectLife(await bench.lockLifeMs(), 100_000);
    },
  );

  it.each([false, true])(
    'does not touch the empty lock of a foreign holder (take: %s)',
    async (take) => {
      const bench = newBench();
      await bench.redis.set(bench.lock, '', 'PX', 100_000);

      expect(await bench.leave(bench.deadToken(), { take })).toEqual(['left']);

      expect(await bench.state()).toEqual({ lock: '', queue: [], fence: null });
      expectLife(await bench.lockLifeMs(), 100_000);
    },
  );
});

describe('leave with take', () => {
  it.each(['token', 'token of the re-check'])(
    'keeps a lock that was granted to the %s meanwhile, with the full lease',
    async (which) => {
      const { bench, token } = await heldBench();
      const gone = bench.deadToken();
      const tokens = which === 'token' ? { token, other: gone } : { token: gone, other: token };
      await bench.redis.pexpire(bench.lock, ACCEPT_MS);

      for (const attempt of ['first', 'repeated']) {
        granted(await bench.leave(tokens.token, { ...tokens, take: true }), token);

        expect([attempt, await bench.waiting()]).toEqual([attempt, []]);
        expectLife(await bench.lockLifeMs(), LEASE_MS);
      }
    },
  );

  it('never shortens a lease', async () => {
    const { bench, token } = await heldBench();
    await bench.redis.pexpire(bench.lock, 2 * LEASE_MS);

    granted(await bench.leave(token, { take: true }), token);

    expectLife(await bench.lockLifeMs(), 2 * LEASE_MS);
  });

  it('takes a free lock that nobody waits for', async () => {
    const bench = newBench();
    const [token, other] = [bench.deadToken(), bench.deadToken()];
    await bench.enqueue(token, other);

    granted(await bench.leave(token, { other, take: true }), token);
    granted(await bench.leave(token, { other, take: true }), token);

    expect(await bench.state()).toMatchObject({ lock: token, queue: [] });
    expectLife(await bench.lockLifeMs(), LEASE_MS);
  });

  it('gives a free lock to those who still wait', async () => {
    const bench = newBench();
    const waiter = await bench.peer();
    const [token, waiting] = [bench.deadToken(), waiter.token()];
    await bench.enqueue(token, waiting);

    expect(await bench.leave(token, { take: true })).toEqual(['left']);

    expect(await bench.state()).toMatchObject({ lock: waiting, queue: [] });
    expect(await waiter.heard()).toEqual([expect.stringMatching(`^g ${waiting} `)]);
  });

  it('takes a free lock although dead waiters are still in its queue', async () => {
    const bench = newBench();
    const token = bench.deadToken();
    await bench.enqueue(bench.deadToken(), token, bench.deadToken());

    granted(await bench.leave(token, { take: true }), token);

    expect(await bench.state()).toMatchObject({ lock: token, queue: [] });
  });

  it('does not touch the lock of a foreign holder', async () => {
    const value = 'somebody';
    const bench = newBench();
    await bench.redis.set(bench.lock, value, 'PX', 100_000);
    const token = bench.deadToken();
    await bench.acquire(token);

    expect(await bench.leave(token, { take: true })).toEqual(['left']);

    expect(await bench.state()).toEqual({ lock: value, queue: [], fence: null });
  });
});
