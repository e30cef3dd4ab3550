import { describe, expect, it } from '@jest/globals';
import { granted } from '../../support/script-replies.js';
import { useScripts } from '../../support/use-scripts.js';

const { newBench, heldBench, contendedBench, connectAs } = useScripts();

describe('a lock whose other keys were overwritten', () => {
  it.each(['queue', 'fence'] as const)(
    'cannot be taken, nor requested together (%s) [R6]',
    async (which) => {
      const bench = newBench();
      await bench.redis.hset(bench[which], 'x', '1');
      await bench.redis.pexpire(bench[which], 100_000);

      for (const nowait of [false, true]) {
        await expect(bench.acquire(bench.deadToken(), { nowait })).rejects.toThrow(/WRONGTYPE/);
      }
      await expect(bench.leave(bench.deadToken(), { take: true })).rejects.toThrow(/WRONGTYPE/);

      expect(await bench.redis.exists(...bench.keys)).toBe(1);
    },
  );

  it.each(['release', 'release for a while', 'requeue', 'leave', 'revoke'])(
    'can be released: %s [R6]',
    async (how) => {
      for (const which of ['queue', 'fence'] as const) {
        const { bench, token, fence } = await heldBench();
        await bench.redis.del(bench[which]);
        await bench.redis.hset(bench[which], 'x', '1');
        await bench.redis.pexpire(bench[which], 100_000);
        const fresh = bench.deadToken();

        switch (how) {
          case 'release':
            expect(await bench.release(token, fence)).toEqual(['released']);
            break;
          case 'release for a while':
            expect(await bench.release(token, fence, '', 50_000)).toEqual(['released']);
            break;
          case 'requeue':
            granted(await bench.release(token, fence, fresh), fresh);
            expect(await bench.renew(fresh, fence)).not.toEqual([]);
            expect(await bench.release(fresh, fence)).toEqual(['released']);
            break;
          case 'leave':
            expect(await bench.leave(token)).toEqual(['left']);
            break;
          default:
            expect(await bench.revoke('x')).toEqual([token]);
        }
        expect([which, await bench.redis.get(bench.lock)]).not.toEqual([which, token]);
      }
    },
  );

  it.each(['released', 'handed over'])(
    'is free when it could not be passed to the next one: %s [R6]',
    async (how) => {
      const { bench, token } = await contendedBench();
      await bench.redis.del(bench.fence);
      await bench.redis.hset(bench.fence, 'x', '1');
      await bench.redis.pexpire(bench.fence, 100_000);
      const fresh = how === 'released' ? '' : bench.deadToken();

      await expect(bench.release(token, 0, fresh)).rejects.toThrow(/WRONGTYPE/);
      expect(await bench.redis.get(bench.lock)).toBeNull();
    },
  );

  it('is lost, not unknown, when the lock itself was overwritten', async () => {
    const { bench, token, fence } = await heldBench();
    await bench.redis.del(bench.lock);
    await bench.redis.hset(bench.lock, 'owner', '1');
    await bench.redis.pexpire(bench.lock, 100_000);

    expect(await bench.release(token, fence)).toEqual(['lost']);
    expect(await bench.leave(token)).toEqual(['left']);
    expect(await bench.renew(token, fence)).toEqual([]);
    expect(await bench.redis.type(bench.lock)).toBe('hash');
  });

  it('is unknown, not lost, when the server does not say [R6]', async () => {
    const { bench, token, fence } = await heldBench();
    const blind = bench.as(await connectAs('&*', '+@all', '-get'));

    await expect(blind.release(token, fence)).rejects.toThrow(/permission|can't run/);
    await expect(blind.leave(token)).rejects.toThrow(/permission|can't run/);
    await expect(blind.renew(token, fence)).rejects.toThrow(/permission|can't run/);
    expect(await bench.state()).toMatchObject({ lock: token });
  });
});
