import { describe, expect, it } from '@jest/globals';
import { type Reply, ScriptBench } from '../../support/script-bench.js';
import { granted } from '../../support/script-replies.js';
import { useScripts } from '../../support/use-scripts.js';

const { heldBench } = useScripts();

describe('more dead waiters than one call drops', () => {
  const MANY = 5_000;

  async function crowded() {
    const held = await heldBench();
    const live = await held.bench.peer();
    const waiting = live.token();
    await held.bench.enqueue(...held.bench.deadTokens(MANY), waiting);
    return { ...held, live, waiting };
  }

  /** Repeats the command as the store does. @returns how often the script asked for it, and the last reply */
  async function repeat(send: () => Promise<Reply>, untouched: () => Promise<unknown>) {
    const before = await untouched();
    let count = 0;
    for (let reply = await send(); ; reply = await send()) {
      if (reply[0] !== 'again') return { count, reply };
      count++;
      expect(await untouched()).toEqual(before);
    }
  }

  const untouched = (bench: ScriptBench) => async () => {
    const { lock, fence } = await bench.state();
    const [last] = await bench.redis.zrange(bench.queue, '-1', '-1');
    return { lock, fence, last };
  };

  it.each([
    ['release', (bench: ScriptBench, token: string) => bench.release(token, 1), ['released']],
    ['leave', (bench: ScriptBench, token: string) => bench.leave(token), ['left']],
    [
      'release with a new token',
      (bench: ScriptBench, token: string) => bench.release(token, 1, 'f'.repeat(32) + ':1'),
      ['queued', 'f'.repeat(32) + ':1', expect.anything(), expect.anything(), 0],
    ],
  ] as const)(
    '%s keeps the lock until it has found the live one among them, then gives the lock to it [R28]',
    async (_how, send, expected) => {
      const { bench, token, live, waiting } = await crowded();

      const { count, reply } = await repeat(() => send(bench, token), untouched(bench));

      expect(reply).toEqual(expected);
      expect(count).toBeGreaterThanOrEqual(3);
      expect(count).toBeLessThanOrEqual(MANY / 1_000);
      expect(await bench.state()).toMatchObject({ lock: waiting });
      expect(await live.heard()).toEqual([expect.stringMatching(`^g ${waiting} `)]);
    },
  );

  it.each([
    ['acquire', (bench: ScriptBench, token: string) => bench.acquire(token), 'queued'],
    [
      'a single try',
      (bench: ScriptBench, token: string) => bench.acquire(token, { nowait: true }),
      'busy',
    ],
    [
      'several keys',
      (bench: ScriptBench, token: string) =>
        bench.acquireTogether([{ bench, token }]).then(([kind]) => [kind]),
      'busy',
    ],
    [
      'a last try',
      (bench: ScriptBench, token: string) => bench.leave(token, { take: true }),
      'left',
    ],
    [
      'recheck',
      (bench: ScriptBench, token: string) => bench.recheck(bench.deadToken(), token, ''),
      'queued',
    ],
  ] as const)('%s of a free lock does nothing until then', async (_how, send, expected) => {
    const { bench, live, waiting } = await crowded();
    await bench.redis.del(bench.lock);
    const token = bench.deadToken();

    const { count, reply } = await repeat(() => send(bench, token), untouched(bench));

    expect(reply[0]).toBe(expected);
    expect(count).toBeGreaterThanOrEqual(3);
    expect(await bench.state()).toMatchObject({ lock: waiting });
    expect(await live.heard()).toEqual([expect.stringMatching(`^g ${waiting} `)]);
  });

  it('several keys, repeated after one of the leases was lost, keep the others until then', async () => {
    const { bench, token, live, waiting } = await crowded();
    const lost = new ScriptBench(bench.redis, 'lost', bench.prefix);
    const thief = (await lost.peer()).token();
    granted(await lost.acquire(thief), thief);
    const asked = [
      { bench, token },
      { bench: lost, token: lost.deadToken() },
    ];
    const send = (): Promise<Reply> => bench.acquireTogether(asked).then(([kind]) => [kind]);

    const { count, reply } = await repeat(send, untouched(bench));

    expect(reply).toEqual(['busy']);
    expect(count).toBeGreaterThanOrEqual(3);
    expect(await bench.state()).toMatchObject({ lock: waiting });
    expect(await live.heard()).toEqual([expect.stringMatching(`^g ${waiting} `)]);
  });

  it('do not keep an operator from taking the lock', async () => {
    const { bench, token } = await crowded();
    expect(await bench.revoke('id')).toEqual([token]);
    expect(await bench.state()).toMatchObject({ lock: 'revoked:id' });
  });

  it('are dropped without the one that asks, whose inbox is away', async () => {
    const { bench } = await heldBench();
    const behind = await bench.peer();
    const waiting = bench.deadToken();
    await bench.enqueue(
      ...bench.deadTokens(900),
      waiting,
      ...bench.deadTokens(900),
      behind.token(),
    );
    await bench.redis.del(bench.lock);
    const fresh = bench.deadToken();

    const { count, reply } = await repeat(
      () => bench.recheck(waiting, fresh, ''),
      untouched(bench),
    );

    expect(count).toBe(1);
    granted(reply, fresh);
    expect(await behind.heard()).toEqual([]);
  });

  it('are no obstacle when a live one is ahead of them', async () => {
    const { bench, token, fence } = await heldBench();
    const live = await bench.peer();
    const waiting = live.token();
    await bench.enqueue(waiting, ...bench.deadTokens(MANY));

    expect(await bench.release(token, fence)).toEqual(['released']);

    expect(await bench.state()).toMatchObject({ lock: waiting });
  });
});
