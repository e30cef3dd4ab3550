import { describe, expect, it } from '@jest/globals';
import { openAdmin } from '../../support/open-locks.js';
import { ScriptBench } from '../../support/script-bench.js';
import { BLOCK, granted, queued } from '../../support/script-replies.js';
import { fillMemory, startSmallRedis } from '../../support/small-redis.js';

describe('out of memory', () => {
  it('acquire is refused and writes nothing; held locks are renewed, handed over and released [R27]', async () => {
    const full = openAdmin((await startSmallRedis()).url);
    const [free, held] = [new ScriptBench(full), new ScriptBench(full)];
    const [token, waiter] = [held.deadToken(), await held.peer()];
    const { fence } = granted(await held.acquire(token), token);
    const first = waiter.token();
    const { score } = queued(await held.acquire(first), first);
    await fillMemory(full);

    await expect(free.acquire(free.deadToken())).rejects.toThrow(/OOM/);
    expect(await full.exists(free.lock, free.queue, free.fence)).toBe(0);

    expect(await held.renew(token, fence)).toEqual([String(fence + BLOCK), 1]);
    const waiting = waiter.token();
    queued(await held.recheck(first, waiting, score), waiting); // keeps its place
    expect(await held.release(token, fence)).toEqual(['released']);
    expect(await held.state()).toMatchObject({ lock: waiting, queue: [] });
    expect(await waiter.heard()).toEqual([expect.stringMatching(`^g ${waiting} `)]);
    const fresh = waiter.token();
    granted(await held.release(waiting, fence, fresh), fresh);
    expect(await held.leave(fresh)).toEqual(['left']);
    expect(await held.state()).toMatchObject({ lock: null, queue: [] });
  });

  it('a lock that was detached is adopted, and nothing else becomes one [R27]', async () => {
    const full = openAdmin((await startSmallRedis()).url);
    const [held, free] = [new ScriptBench(full), new ScriptBench(full)];
    const [token, newToken] = [held.deadToken(), held.deadToken()];
    const { fence } = granted(await held.acquire(token), token);
    await fillMemory(full);

    expect(await free.adopt(token, newToken, fence)).toEqual(['lost']);
    expect(granted(await held.adopt(token, newToken, fence), newToken).fence).toBeGreaterThan(
      fence,
    );
    expect((await held.state()).lock).toBe(newToken);
    expect(await held.adopt(token, held.deadToken(), fence)).toEqual(['lost']);
  });

  it('several keys requested twice, of which one was lost in between, go to those who wait', async () => {
    const full = openAdmin((await startSmallRedis()).url);
    const [wanted, lost] = [new ScriptBench(full, 'a'), new ScriptBench(full, 'b')];
    const asked = [wanted, lost].map((bench) => ({ bench, token: bench.deadToken() }));
    expect((await wanted.acquireTogether(asked))[0]).toBe('granted');
    await full.set(lost.lock, 'somebody', 'PX', 60_000);
    const waiter = await wanted.peer();
    const waiting = waiter.token();
    await wanted.acquire(waiting);
    await fillMemory(full);

    expect((await wanted.acquireTogether(asked))[0]).toBe('busy');
    expect(await wanted.state()).toMatchObject({ lock: waiting, queue: [] });
    expect(await waiter.heard()).toEqual([expect.stringMatching(`^g ${waiting} `)]);
  });

  it('held locks are kept for a while, revoked, found again, and passed on among dead waiters [R27]', async () => {
    const full = openAdmin((await startSmallRedis()).url);
    const [kept, revoked, found, crowd] = Array.from(
      { length: 4 },
      () => new ScriptBench(full),
    ) as [ScriptBench, ScriptBench, ScriptBench, ScriptBench];
    const tokens = new Map<ScriptBench, string>();
    for (const bench of [kept, revoked, found, crowd]) {
      const token = bench.deadToken();
      granted(await bench.acquire(token), token);
      tokens.set(bench, token);
    }
    const waiter = await crowd.peer();
    const waiting = waiter.token();
    await crowd.enqueue(...crowd.deadTokens(300), waiting);
    await fillMemory(full);

    expect(await kept.release(tokens.get(kept)!, 1, '', 50_000)).toEqual(['released']);
    expect((await kept.state()).lock).toBe(`kept:${tokens.get(kept)}`);
    expect(await revoked.revoke('x')).toEqual([tokens.get(revoked)]);
    expect((await revoked.state()).lock).not.toBe(tokens.get(revoked));
    granted(await found.acquire(tokens.get(found)!), tokens.get(found)!);
    expect(await crowd.release(tokens.get(crowd)!, 1)).toEqual(['released']);
    expect(await crowd.state()).toMatchObject({ lock: waiting, queue: [] });
  });
});
