import { describe, expect, it } from '@jest/globals';
import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks';
import { getEventListeners } from 'node:events';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import {
  LockAbortedError,
  LockConfigError,
  LockNotAcquiredError,
} from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type { LockEvent } from '../../libs/nestjs-locked/src/core/lock-events.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import { inMemoryEngine } from '../../libs/nestjs-locked/src/testing/in-memory-engine.js';
import { InMemoryLockStore } from '../../libs/nestjs-locked/src/testing/in-memory-lock-store.js';
import { InMemoryLocks } from '../../libs/nestjs-locked/src/testing/in-memory-locks.js';
import { eventually } from '../support/eventually.js';
import { FakeClock, settled } from '../support/fake-clock.js';
import { makeGate } from '../support/gate.js';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

function start() {
  const clock = new FakeClock();
  const locks = new InMemoryLocks(clock);
  return { clock, engine: inMemoryEngine({}, locks), other: inMemoryEngine({}, locks) };
}

describe('re-entry', () => {
  it('joins the hold of the await chain: same token, released with the outermost call [D124]', async () => {
    const { engine, other } = start();
    await engine.withLock('k', {}, async (outer) => {
      await engine.withLock('k', {}, async (inner) => {
        expect(inner.fencingToken).toBe(outer.fencingToken);
        await inner.release();
        expect(() => inner.assertHeld()).toThrow(/released/);
        await expect(inner.ensureRemaining(1)).rejects.toThrow(/released/);
      });
      expect(outer.isHeld).toBe(true);
      expect(await other.inspect('k')).not.toBeNull();
    });
    expect(await other.inspect('k')).toBeNull();
    expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });

  it('answers a release inside a joined call at once, and ends the hold with that call [D43]', async () => {
    const { engine, other } = start();
    await engine.withLock('k', {}, (outer) =>
      engine.withLock('k', {}, async () => {
        expect(await outer.release()).toBe(true);
        expect(outer.isHeld).toBe(false);
        expect(await other.inspect('k')).not.toBeNull();
      }),
    );
    const lock = await engine.acquire('k');
    await lock.run(() => engine.withLock('k', {}, () => lock.release()));
    await settled();
    expect(await other.inspect('k')).toBeNull();
    expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });

  it.each([
    ['the nested call', 1_000, 5_000],
    ['the outer call', 5_000, 1_000],
  ])('keeps the key for the longer holdAtLeastMs, that of %s', async (_, outerMs, innerMs) => {
    const { clock, engine, other } = start();
    await engine.withLock('k', { holdAtLeastMs: outerMs }, () =>
      engine.withLock('k', { holdAtLeastMs: innerMs }, () => 'quick'),
    );
    await clock.advance(4_900);
    expect(await other.inspect('k')).not.toBeNull();
    await clock.advance(200);
    expect(await other.inspect('k')).toBeNull();
    await engine.withLock(['j', 'k'], {}, () =>
      engine.withLock('k', { holdAtLeastMs: innerMs }, () => 'quick'),
    );
    expect(await other.inspect('j')).toBeNull();
    expect(await other.inspect('k')).not.toBeNull();
  });

  it('never shortens the lease [D124]', async () => {
    const { engine } = start();
    await engine.withLock('k', { leaseMs: 60_000 }, (outer) =>
      engine.withLock('k', { leaseMs: 500 }, () => expect(outer.remainingMs()).toBe(59_400)),
    );
  });

  it('lets branches that ask for the same key take turns, including branches of branches [R44, D125]', async () => {
    const { engine } = start();
    let inside = 0;
    let most = 0;
    const branch = () =>
      engine.withLock('k', {}, async () => {
        most = Math.max(most, ++inside);
        await settled();
        await Promise.all([1, 2].map(() => engine.withLock('k', {}, settled)));
        inside--;
      });
    await engine.withLock('k', {}, () => Promise.all([branch(), branch(), branch()]));
    expect(most).toBe(1);
  });

  it('lets a branch wait for its turn no longer than waitMs, and says who has it [R44]', async () => {
    const { clock, engine } = start();
    const first = makeGate();
    const call = engine.withLock('k', {}, async () => {
      const slow = engine.withLock('k', {}, () => first.opened);
      const late = engine.withLock('k', { waitMs: 100 }, () => 'never');
      const refused = expect(late).rejects.toThrow(/another branch of the same call/);
      await clock.advance(100);
      await refused;
      await expect(late).rejects.toThrow(LockNotAcquiredError);
      first.open();
      await slow;
      // The turn of the one that gave up is not lost.
      return engine.withLock('k', { waitMs: 0 }, () => 'next');
    });
    expect(await call).toBe('next');
  });

  it('stops waiting for a turn when the signal aborts', async () => {
    const { engine } = start();
    const controller = new AbortController();
    await engine.withLock('k', {}, async () => {
      const first = makeGate();
      const slow = engine.withLock('k', {}, () => first.opened);
      const late = engine.withLock('k', { signal: controller.signal }, () => 'never');
      controller.abort();
      await expect(late).rejects.toThrow(LockAbortedError);
      first.open();
      await slow;
    });
  });

  it('no longer listens to the signal once it has its turn', async () => {
    const { engine } = start();
    const { signal } = new AbortController();
    await engine.withLock('k', {}, () =>
      Promise.all([1, 2].map(() => engine.withLock('k', { signal }, settled))),
    );
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('keeps the lock until a branch that was not awaited has ended [R43]', async () => {
    const { engine, other } = start();
    const branch = makeGate();
    let ended: Promise<unknown> = Promise.resolve();
    await engine.withLock('k', {}, () => {
      ended = engine.withLock('k', {}, () => branch.opened);
    });
    await settled();
    expect(await other.inspect('k')).not.toBeNull();
    branch.open();
    await ended;
    await settled();
    expect(await other.inspect('k')).toBeNull();
  });

  it('gives work that asks after the hold has ended a hold of its own [R43]', async () => {
    const { engine } = start();
    const later = makeGate();
    let token = 0;
    let late: Promise<number> = Promise.resolve(0);
    await engine.withLock('k', {}, (lock) => {
      token = lock.fencingToken;
      late = later.opened.then(() => engine.withLock('k', {}, (own) => own.fencingToken));
    });
    later.open();
    expect(await late).toBeGreaterThan(token);
  });

  it('joins the outer hold in work that a call has left behind when it ended', async () => {
    const { engine, other } = start();
    await engine.withLock(['j', 'k'], {}, async (outer) => {
      const gate = makeGate();
      let left: Promise<unknown> | undefined;
      await engine.withLock('k', {}, () => {
        left = gate.opened.then(() => {
          expect(engine.current('k')).toBe(outer);
          expect(engine.current()).toBe(outer);
          return engine.withLock('k', { waitMs: 0 }, (joined) => joined.fencingToken);
        });
      });
      gate.open();
      expect(await left).toBe(outer.fencingTokenOf('k'));
    });
    expect(await other.inspect('k')).toBeNull();
    expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });

  it('joins the innermost call although run() has made the lock of an outer one the current one', async () => {
    const { engine } = start();
    await engine.withLock('k', {}, (outer) =>
      engine.withLock('k', {}, () =>
        outer.run(async () => {
          expect(engine.current()).toBe(outer);
          expect(await engine.withLock('k', { waitMs: 0 }, () => 'joined')).toBe('joined');
          expect(await outer.release()).toBe(true);
        }),
      ),
    );
    expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });

  it('joins in run() wherever the lock was current before', async () => {
    const { engine } = start();
    const lock = await engine.acquire('k');
    await engine.withLock('x', {}, () => engine.withLock('y', {}, () => lock.run(() => {})));
    await lock.run(() =>
      engine.withLock('k', {}, async () => {
        expect(await engine.withLock('k', { waitMs: 0 }, () => 'joined')).toBe('joined');
        expect(await lock.release()).toBe(true);
      }),
    );
    await settled();
    expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });

  it('does not join with reentrant: false, nor across services [R34]', async () => {
    const { engine, other } = start();
    await engine.withLock('k', {}, async () => {
      const own = engine.withLock('k', { reentrant: false, waitMs: 0 }, () => 'joined');
      await expect(own).rejects.toThrow(LockNotAcquiredError);
      await expect(own).rejects.toThrow(
        '; this call may hold it itself: leave out reentrant: false, so that it joins',
      );
      const foreign = other.withLock('k', { waitMs: 0 }, () => 'joined');
      await expect(foreign).rejects.toThrow(LockNotAcquiredError);
      await expect(foreign).rejects.not.toThrow('may hold it itself');
    });
  });

  it('joins some of several keys and acquires the others', async () => {
    const { engine, other } = start();
    await engine.withLock('b', {}, (outer) =>
      engine.withLock(['b', 'c'], {}, (inner) => {
        expect(inner.keys).toEqual(['b', 'c']);
        expect(inner.fencingTokenOf('b')).toBe(outer.fencingToken);
      }),
    );
    expect(await other.inspect('c')).toBeNull();
  });
});

describe('a job that an in-memory queue starts where the job of another request has ended', () => {
  /** Two requests queue a job each; that of the second begins in the context of the first, which holds the lock. */
  const tokens = async (enqueue: <T>(job: () => T) => () => T) => {
    const { engine } = start();
    const request = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    const job = (): Promise<void> =>
      engine.withLock('k', { waitMs: 5_000 }, (lock) => {
        seen.push(request.getStore(), lock.fencingToken);
      });
    const second = request.run('second', () => enqueue(job));
    let ended: Promise<void> = Promise.resolve();
    const first = await request.run('first', () =>
      engine.withLock('k', {}, (lock) => {
        ended = second();
        return lock.fencingToken;
      }),
    );
    await ended;
    return { first, seen };
  };

  it('joins the lock of that request', async () => {
    const { first, seen } = await tokens((job) => job);
    expect(seen).toEqual(['first', first]);
  });

  it('has its own lock if it is bound to its request with AsyncResource.bind()', async () => {
    const { first, seen } = await tokens((job) => AsyncResource.bind(job));
    expect(seen).toEqual(['second', first + 1]);
  });
});

describe('run() and current()', () => {
  it('acquire() is not ambient, lock.run() is', async () => {
    const { engine } = start();
    const lock = await engine.acquire('k');
    expect(engine.current()).toBeUndefined();
    const other = engine.withLock('k', { waitMs: 0 }, () => 'joined');
    await expect(other).rejects.toThrow(LockNotAcquiredError);
    await lock.run(async () => {
      expect(engine.current()).toBe(lock);
      expect(engine.current('k')).toBe(lock);
      expect(await engine.withLock('k', { waitMs: 0 }, () => 'joined')).toBe('joined');
    });
    await lock.release();
    await expect(lock.run(() => 'late')).rejects.toMatchObject({ code: 'LOCK_LOST' });
  });

  it('release() waits for the calls that joined', async () => {
    const { engine, other } = start();
    const lock = await engine.acquire('k');
    const work = makeGate();
    const run = lock.run(() => engine.withLock('k', {}, () => work.opened));
    await settled();
    const released = lock.release();
    await settled();
    expect(await other.inspect('k')).not.toBeNull();
    work.open();
    await run;
    expect(await released).toBe(true);
    expect(await other.inspect('k')).toBeNull();
  });

  it('current() finds the innermost, or the one that has the key, while it is held', async () => {
    const { engine } = start();
    await engine.withLock('a', {}, (a) =>
      engine.withLock('b', {}, (b) => {
        expect(engine.current()).toBe(b);
        expect(engine.current('a')).toBe(a);
        expect(engine.current('c')).toBeUndefined();
      }),
    );
    expect(engine.current()).toBeUndefined();
  });

  it('current() already finds the lock of the outer call while that of the nested call is being released', async () => {
    const { engine } = start();
    await engine.withLock('a', {}, (a) =>
      engine.withLock('b', {}, async (b) => {
        const released = b.release();
        expect(engine.current()).toBe(a);
        await released;
        expect(engine.current()).toBe(a);
      }),
    );
  });

  it('current() keeps a lost lock until its work has ended, instead of the outer one', async () => {
    const { engine } = start();
    await engine.withLock('a', {}, async (a) => {
      await engine.withLock(['a', 'b'], {}, async (inner) => {
        await engine.forceRelease('b');
        expect(inner.isHeld).toBe(false);
        for (const key of [undefined, 'a', 'b']) expect(engine.current(key)).toBe(inner);
        expect(engine.current()?.signal.aborted).toBe(true);
      });
      expect(engine.current()).toBe(a);
      expect(engine.current('b')).toBeUndefined();
    });
  });

  it('reports that a nested call keeps the lock of a call that has ended, unless it was lost', async () => {
    const locks = new InMemoryLocks(new FakeClock());
    const options = resolveServiceOptions({});
    const store = new InMemoryLockStore(locks, options.leaseMs);
    const keys: string[] = [];
    const report = (event: LockEvent): unknown => event.type === 'outlived' && keys.push(event.key);
    const engine = new LockEngine({ store, options, report, clock: locks.clock });
    const end = makeGate();
    const left: Promise<void>[] = [];
    for (const key of ['lost', 'kept']) {
      await engine.withLock(key, {}, async () => {
        left.push(engine.withLock(key, {}, () => end.opened));
        await settled();
        if (key === 'lost') await engine.forceRelease(key);
      });
    }
    await eventually(() => expect(keys).toContain('kept'));
    expect(keys).toEqual(['kept']);
    end.open();
    await Promise.all(left);
  });
});

describe('nested keys in different orders', () => {
  it('wait ten seconds at most, and the error names both keys [R24]', async () => {
    const { clock, engine, other } = start();
    await other.acquire('a');
    const call = engine.withLock('b', {}, () => engine.withLock('a', { waitMs: 60_000 }, () => 1));
    const refused = expect(call).rejects.toThrow(
      /'a'.*possible deadlock: this call holds 'b'.*because it waited for 10000 ms at most, whatever waitMs is/,
    );
    await clock.advance(10_001);
    await refused;
  });

  it('are not called a deadlock by a single try, which does not wait [R24]', async () => {
    const { engine, other } = start();
    await other.acquire('a');
    const refused = engine.withLock('b', {}, () => engine.withLock('a', { waitMs: 0 }, () => 1));
    await expect(refused).rejects.toThrow(/^(?!.*deadlock).*'a'/);
  });

  it('are refused without a limit [R24]', async () => {
    const { engine } = start();
    const call = engine.withLock('b', {}, () =>
      engine.withLock('a', { waitMs: Infinity }, () => 1),
    );
    await expect(call).rejects.toThrow(LockConfigError);
  });
});

describe('close()', () => {
  it('still serves work that holds a lock, and nobody else [R45]', async () => {
    const { engine } = start();
    const work = makeGate();
    const call = engine.withLock('a', {}, async () => {
      await work.opened;
      return engine.withLock('b', {}, () => 'finished');
    });
    await settled();
    const closed = engine.close(10_000);
    await expect(engine.acquire('b')).rejects.toThrow(/shutting down/);
    work.open();
    expect(await call).toBe('finished');
    await closed;
  });
});

describe('branches that could wait for each other', () => {
  const crossed = (engine: LockEngine, waitMs: number, keys: { shared: string; other: string }) =>
    engine.withLock(keys.shared, {}, () =>
      Promise.allSettled([
        engine.withLock(keys.shared, {}, async () => {
          await settled();
          await engine.withLock(keys.other, { waitMs }, () => 'both');
        }),
        engine.withLock(keys.other, {}, async () => {
          await settled();
          await engine.withLock(keys.shared, { waitMs }, () => 'both');
        }),
      ]),
    );

  it('are refused without a limit, whichever of the keys comes first [D28]', async () => {
    const { clock, engine } = start();
    for (const keys of [
      { shared: 'a', other: 'b' },
      { shared: 'b', other: 'a' },
    ]) {
      const call = crossed(engine, Infinity, keys);
      await clock.advance(20_000);
      const outcomes = await call;
      const refused = outcomes.filter(({ status }) => status === 'rejected');
      expect(refused).toHaveLength(1);
      expect(refused[0]).toMatchObject({ reason: { code: 'LOCK_CONFIG_INVALID' } });
    }
  });

  it('wait ten seconds at most, and the error names both keys [R24]', async () => {
    const { clock, engine } = start();
    const call = crossed(engine, 60_000, { shared: 'a', other: 'b' });
    for (let i = 0; i < 5; i++) await settled(); // both wait now
    await clock.advance(10_000);
    expect((await call)[1]).toMatchObject({
      reason: {
        message: expect.stringMatching(
          /'a'.*possible deadlock: this call holds 'b'.*10000 ms at most/,
        ),
      },
    });
  });

  it('may wait without a limit for keys that their parent held when they began', async () => {
    const { engine } = start();
    const done = await engine.withLock(['a', 'z'], {}, () =>
      Promise.all([1, 2].map(() => engine.withLock('a', { waitMs: Infinity }, settled))),
    );
    expect(done).toHaveLength(2);
  });
});

describe('a branch whose turn comes after the hold was lost', () => {
  it('does not join it: it asks for a hold of its own [D38]', async () => {
    const { clock, engine, other } = start();
    const longWork = makeGate();
    const seen: boolean[] = [];
    const tokens = new Set<number>();
    const call = engine.withLock('k', { renew: false, leaseMs: 1_000 }, (parent) => {
      tokens.add(parent.fencingToken);
      return Promise.all([
        engine.withLock('k', {}, () => parent.ensureRemaining(0).then(() => longWork.opened)),
        engine.withLock('k', {}, async (lock) => {
          seen.push(lock.isHeld);
          tokens.add(lock.fencingToken);
          expect(await other.tryAcquire('k')).toBeNull();
        }),
      ]);
    });
    await settled();
    await clock.advance(1_500);
    longWork.open();
    await clock.advance(100);
    await call;
    expect(seen).toEqual([true]);
    expect(tokens.size).toBe(2);
  });
});

describe('a branch whose turn comes at the end of its wait, after the hold was lost', () => {
  /** The machine is suspended while one branch works and another one waits for its turn. */
  const suspended = async (meanwhile: (other: LockEngine) => Promise<unknown>) => {
    const { clock, engine, other } = start();
    const firstWork = makeGate();
    const works: { isHeld: boolean; alone: boolean }[] = [];
    const call = engine.withLock('k', { renew: false, leaseMs: 1_000 }, () =>
      Promise.allSettled([
        engine.withLock('k', {}, () => firstWork.opened),
        engine.withLock('k', { waitMs: 2_000 }, async (lock) => {
          works.push({ isHeld: lock.isHeld, alone: (await other.tryAcquire('k')) === null });
        }),
      ]),
    );
    await settled();
    clock.block(2_500);
    await meanwhile(other);
    firstWork.open();
    const [, branch] = await call;
    return { engine, works, branch };
  };

  it('tries once for a hold of its own [D39]', async () => {
    const { engine, works, branch } = await suspended(() => Promise.resolve());
    expect(branch).toMatchObject({ status: 'fulfilled' });
    expect(works).toEqual([{ isHeld: true, alone: true }]);
    expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });

  it('fails with LockNotAcquiredError if somebody else has it [D39]', async () => {
    const { engine, works, branch } = await suspended((other) => other.acquire('k'));
    expect(branch).toMatchObject({ reason: { code: 'LOCK_NOT_ACQUIRED' } });
    expect(works).toEqual([]);
    expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });
});

describe('a branch that does not await a branch of its own', () => {
  it('keeps its turn until that one has ended: two never work at once [R44]', async () => {
    const { engine } = start();
    const gates = [makeGate(), makeGate(), makeGate()];
    let working = 0;
    let most = 0;
    const work = (n: number) => async (): Promise<void> => {
      most = Math.max(most, ++working);
      await gates[n]!.opened;
      working--;
    };
    const late: Promise<void>[] = [];
    const call = engine.withLock('k', {}, () =>
      Promise.all([
        engine.withLock('k', {}, () => {
          late.push(engine.withLock('k', {}, work(0)), engine.withLock('k', {}, work(1)));
        }),
        engine.withLock('k', {}, work(2)),
      ]),
    );
    for (const gate of gates) {
      await settled();
      expect(working).toBe(1);
      gate.open();
    }
    await Promise.all([call, ...late]);
    expect(most).toBe(1);
    await settled();
    expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });
});

describe('very many nested calls, none of them awaited by its parent', () => {
  it('release the lock with the last one', async () => {
    const { engine, other } = start();
    const last = makeGate();
    const page = (n: number): Promise<void> =>
      engine.withLock('k', {}, async () => {
        await Promise.resolve();
        if (n < 3_000) void page(n + 1);
        else last.open();
      });
    await page(1);
    await last.opened;
    await settled();
    expect(await other.inspect('k')).toBeNull();
    expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });
});

describe('very deeply nested calls', () => {
  it('take no more memory per level than the first ones', async () => {
    const { engine } = start();
    const DEPTH = 4_000;
    let bytes = 0;
    const heap = (): number => (collectGarbage(), process.memoryUsage().heapUsed);
    const before = heap();
    const nest = (n: number): Promise<void> =>
      engine.withLock('k', {}, () => {
        if (n < DEPTH) return nest(n + 1);
        bytes = heap() - before;
        return undefined;
      });
    await nest(1);
    expect(bytes / DEPTH).toBeLessThan(24_000); // 16 KB; a list of all levels for each would be as much again
    expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });
});

describe('a branch whose turn comes after the hold has ended', () => {
  /** A call that waits for none of the branches that it starts, in which the same key is asked for. */
  const startBranches = async (engine: LockEngine, branches: (() => Promise<unknown>)[]) => {
    let ended: Promise<unknown> = Promise.resolve();
    await engine.withLock('k', {}, () => {
      ended = Promise.all(branches.map((branch) => branch()));
    });
    return { ended };
  };

  it('asks for a hold of its own, which excludes others [R43]', async () => {
    const { engine, other } = start();
    const [first, second] = [makeGate(), makeGate()];
    const tokens: number[] = [];
    const { ended } = await startBranches(engine, [
      () => engine.withLock('k', {}, (lock) => (tokens.push(lock.fencingToken), first.opened)),
      () => engine.withLock('k', {}, (lock) => (tokens.push(lock.fencingToken), second.opened)),
    ]);
    first.open();
    await settled();
    expect(new Set(tokens).size).toBe(2);
    expect(await other.tryAcquire('k')).toBeNull();
    second.open();
    await ended;
    await settled();
    expect(await other.inspect('k')).toBeNull();
  });

  it('waits for whoever has the key by then [D40]', async () => {
    const { engine, other } = start();
    const first = makeGate();
    const order: string[] = [];
    const { ended } = await startBranches(engine, [
      () => engine.withLock('k', {}, () => first.opened),
      () => engine.withLock('k', {}, () => order.push('second')),
    ]);
    const stranger = other.acquire('k');
    await settled();
    first.open();
    const theirs = await stranger;
    await settled();
    order.push('stranger');
    await theirs.release();
    await ended;
    expect(order).toEqual(['stranger', 'second']);
  });

  it.each([0, 1, 2, 3, 4, 5, 6, 7, 8])(
    'leaves nothing behind if it asks %i moments before the end, for another key as well',
    async (moments) => {
      const { clock, engine, other } = start();
      const busy = await other.acquire('z');
      let late: Promise<unknown> = Promise.resolve();
      await engine.withLock(['k', 'l'], {}, () => {
        late = (async () => {
          for (let n = 0; n < moments; n++) await Promise.resolve();
          return engine.withLock(['k', 'l', 'z'], { waitMs: 100 }, () => 'never');
        })();
        late.catch(() => {});
      });
      await clock.advance(200);
      await expect(late).rejects.toThrow(LockNotAcquiredError);
      await busy.release();
      expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
    },
  );
});

describe('a signal that many calls wait with', () => {
  it('gets one listener', async () => {
    const { engine } = start();
    const warnings: Error[] = [];
    const onWarning = (warning: Error): unknown => warnings.push(warning);
    process.on('warning', onWarning);
    const { signal } = new AbortController();
    await engine.withLock('k', { reentrant: false }, async () => {
      const calls = Array.from({ length: 30 }, () =>
        engine.acquire('k', { signal, reentrant: false, waitMs: 60_000 }),
      );
      void Promise.all(calls.map((call) => call.then((lock) => lock.release())));
      await settled();
      await new Promise(setImmediate);
    });
    await settled();
    process.off('warning', onWarning);
    expect(warnings).toEqual([]);
  });
});
