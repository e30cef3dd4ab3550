import { describe, expect, it } from '@jest/globals';
import { ACCEPT_MS, FENCE_KEEP_MS, LEASE_MS, ScriptBench } from '../../support/script-bench.js';
import { expectLife, granted } from '../../support/script-replies.js';
import { useScripts } from '../../support/use-scripts.js';

const { newBench, serverMicros } = useScripts();

describe('acquire-together', () => {
  /** Several keys; `ask` tries them all with new tokens. */
  function several(count: number) {
    const { redis, prefix } = newBench();
    const all = Array.from({ length: count }, (_, i) => new ScriptBench(redis, `key ${i}`, prefix));
    const ask = () => {
      const asked = all.map((bench) => ({ bench, token: bench.deadToken() }));
      return { asked, tokens: asked.map(({ token }) => token), again: () => send(asked) };
    };
    const send = (asked: readonly { bench: ScriptBench; token: string }[], leaseMs?: number) =>
      all[0]!.acquireTogether(asked, leaseMs);
    const states = () => Promise.all(all.map((bench) => bench.state()));
    return { all, ask, states, send };
  }

  /** One of the keys has a holder that listens. */
  async function hold(bench: ScriptBench) {
    const holder = await bench.peer();
    const token = holder.token();
    granted(await bench.acquire(token), token);
    return { holder, token };
  }

  it('takes every lock for leaseMs, each with a number', async () => {
    const { all, ask, states } = several(3);
    const { tokens, again } = ask();

    const [kind, ...numbers] = await again();

    expect(kind).toBe('granted');
    expect(await states()).toEqual(
      tokens.map((token, i) => ({ lock: token, queue: [], fence: numbers[i]![1] })),
    );
    for (const [fence, blockEnd] of numbers) expect(blockEnd).toBe(fence);
    for (const bench of all) {
      expectLife(await bench.lockLifeMs(), LEASE_MS);
      expectLife(await bench.redis.pttl(bench.fence), LEASE_MS + FENCE_KEEP_MS);
    }
  });

  it('issues numbers above the stored one for each', async () => {
    const { all, ask } = several(2);
    const ahead = (await serverMicros()) + 3_600_000_000;
    await all[1]!.redis.set(all[1]!.fence, String(ahead), 'PX', 100_000);

    const [, [first] = [], [second] = []] = await ask().again();

    expect(Number(first)).toBeLessThan(ahead);
    expect(Number(second)).toBe(ahead + 1);
  });

  it.each([0, 1, 2])(
    'takes none when number %i is held, reports which, and asks its holder for it [R24]',
    async (index) => {
      const { all, ask, states } = several(3);
      const { holder, token } = await hold(all[index]!);
      const before = await states();
      const { again } = ask();

      for (const attempt of ['first', 'repeated']) {
        const [kind, ...replies] = await again();

        expect([attempt, kind]).toEqual([attempt, 'busy']);
        const [pttl, foreign] = replies.splice(index, 1)[0] as [number, number];
        expectLife(pttl, LEASE_MS);
        expect(foreign).toBe(0);
        expect(replies).toEqual([[], []]);
        expect(await states()).toEqual(before);
        expect(await holder.heard()).toEqual([`w ${token} key ${index}`]);
      }
    },
  );

  it.each([0, 1, 2])(
    'takes none when a waiter exists for number %i, which gets it [R24]',
    async (index) => {
      const { all, ask } = several(3);
      const waiter = await all[index]!.peer();
      const waiting = waiter.token();
      await all[index]!.enqueue(all[index]!.deadToken(), waiting);

      const [kind, ...replies] = await ask().again();

      expect(kind).toBe('busy');
      const [pttl, foreign] = replies.splice(index, 1)[0] as [number, number];
      expectLife(pttl, ACCEPT_MS);
      expect(foreign).toBe(0);
      expect(replies).toEqual([[], []]);
      for (const [i, bench] of all.entries()) {
        expect((await bench.state()).lock).toBe(i === index ? waiting : null);
      }
      expect(await waiter.heard()).toEqual([expect.stringMatching(`^g ${waiting} `)]);
    },
  );

  it('reports every key that is taken: by us, by others, without an expiry', async () => {
    const { all, ask } = several(4);
    await hold(all[0]!);
    await all[1]!.setEndless(all[1]!.lock, 'somebody');
    await all[2]!.redis.set(all[2]!.lock, `kept:${all[2]!.deadToken()}`, 'PX', 100_000);

    expect(await ask().again()).toEqual([
      'busy',
      [expect.any(Number), 0],
      [-1, 1],
      [expect.any(Number), 0],
      [],
    ]);
    expect((await all[3]!.state()).lock).toBeNull();
  });

  it('takes all when only dead waiters are in the queues [R24]', async () => {
    const { all, ask, states } = several(3);
    for (const bench of all) await bench.enqueue(...bench.deadTokens(5));
    const { tokens, again } = ask();

    expect((await again())[0]).toBe('granted');

    expect(await states()).toMatchObject(tokens.map((token) => ({ lock: token, queue: [] })));
  });

  it('repeated by the holder grants the same tokens again, and shortens none', async () => {
    const { all, ask, states, send } = several(2);
    const { asked, tokens, again } = ask();
    const [, first] = await again();

    const [kind, second] = await send(asked, 1_000);

    expect(kind).toBe('granted');
    expect(Number(second![0])).toBeGreaterThan(Number(first![1]));
    expect(await states()).toMatchObject(tokens.map((token) => ({ lock: token })));
    for (const bench of all) expectLife(await bench.lockLifeMs(), LEASE_MS);
  });

  it('repeated after one of the leases was lost keeps none, and passes the others on', async () => {
    const { all, ask } = several(3);
    const { again } = ask();
    await again();
    await all[1]!.redis.del(all[1]!.lock);
    const thief = await hold(all[1]!);
    const [waiter, second] = [await all[0]!.peer(), await all[0]!.peer()];
    const [waiting, behind] = [waiter.token(), second.token()];
    await all[0]!.acquire(waiting);
    await all[0]!.acquire(behind);

    expect((await again())[0]).toBe('busy');

    expect(await all[0]!.state()).toMatchObject({ lock: waiting });
    expect(await all[0]!.waiting()).toEqual([behind]);
    expect(await second.heard()).toEqual([`h ${behind} ${ACCEPT_MS} key 0`]);
    expect(await all[1]!.state()).toMatchObject({ lock: thief.token });
    expect(await all[2]!.state()).toMatchObject({ lock: null });
  });

  it.each(['lock', 'queue', 'fence'] as const)(
    'is refused for a %s of another type, and writes nothing',
    async (which) => {
      const { all, ask } = several(3);
      await all[2]!.redis.hset(all[2]![which], 'owner', '1');
      await all[2]!.redis.pexpire(all[2]![which], 100_000);

      await expect(ask().again()).rejects.toThrow(/WRONGTYPE/);

      const keys = all.flatMap((bench) => bench.keys).filter((key) => key !== all[2]![which]);
      expect(await all[0]!.redis.exists(...keys)).toBe(0);
    },
  );
});
