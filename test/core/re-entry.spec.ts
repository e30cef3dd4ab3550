import { describe, expect, it } from '@jest/globals';
import type { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import {
  LockAbortedError,
  LockConfigError,
  LockNotAcquiredError,
} from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { inMemoryEngine } from '../../libs/nestjs-locked/src/testing/in-memory-engine.js';
import { InMemoryLocks } from '../../libs/nestjs-locked/src/testing/in-memory-locks.js';
import { FakeClock, settled } from '../support/fake-clock.js';
import { makeGate } from '../support/gate.js';

function start() {
  const clock = new FakeClock();
  const locks = new InMemoryLocks(clock);
  return { clock, engine: inMemoryEngine({}, locks), other: inMemoryEngine({}, locks) };
}

describe('re-entry', () => {
  it('joins the hold of the await chain: same token, released with the outermost call', async () => {
    const { engine, other } = start();
    await engine.withLock('k', {}, async (outer) => {
      await engine.withLock('k', {}, async (inner) => {
        expect(inner.fencingToken).toBe(outer.fencingToken);
        await inner.release();
        expect(() => inner.assertHeld()).toThrow(/released/);
        await expect(inner.ensure(1)).rejects.toThrow(/released/);
      });
      expect(outer.isHeld).toBe(true);
      expect(await other.inspect('k')).not.toBeNull();
    });
    expect(await other.inspect('k')).toBeNull();
    expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });

  it('answers a release inside of a call that joined at once, and ends the hold with that call', async () => {
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

  it('never shortens the lease', async () => {
    const { engine } = start();
    await engine.withLock('k', { leaseMs: 60_000 }, (outer) =>
      engine.withLock('k', { leaseMs: 500 }, () => expect(outer.remainingMs()).toBe(59_400)),
    );
  });

  it('lets branches that ask for the same key take turns, also those inside of branches', async () => {
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

  it('lets a branch wait for its turn no longer than waitMs, and says who has it', async () => {
    const { clock, engine } = start();
    const first = makeGate();
    const call = engine.withLock('k', {}, async () => {
      const slow = engine.withLock('k', {}, () => first.opened);
      const late = engine.withLock('k', { waitMs: 100 }, () => 'never');
      const refused = expect(late).rejects.toThrow(/another branch of this same call/);
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

  it('keeps the lock until a branch that was not awaited has ended', async () => {
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

  it('gives work that asks after the hold has ended a hold of its own', async () => {
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

  it('does not join with reentrant: false, nor across services', async () => {
    const { engine, other } = start();
    await engine.withLock('k', {}, async () => {
      const own = engine.withLock('k', { reentrant: false, waitMs: 0 }, () => 'joined');
      await expect(own).rejects.toThrow(LockNotAcquiredError);
      await expect(other.withLock('k', { waitMs: 0 }, () => 'joined')).rejects.toThrow(
        LockNotAcquiredError,
      );
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
});

describe('nested keys in different orders', () => {
  it('wait ten seconds at most, and the error names both keys', async () => {
    const { clock, engine, other } = start();
    await other.acquire('a');
    const call = engine.withLock('b', {}, () => engine.withLock('a', { waitMs: 60_000 }, () => 1));
    const refused = expect(call).rejects.toThrow(/'a'.*possible deadlock: this call holds 'b'/);
    await clock.advance(10_001);
    await refused;
  });

  it('are refused without a limit', async () => {
    const { engine } = start();
    const call = engine.withLock('b', {}, () =>
      engine.withLock('a', { waitMs: Infinity }, () => 1),
    );
    await expect(call).rejects.toThrow(LockConfigError);
  });
});

describe('close()', () => {
  it('still serves work that holds a lock, and nobody else', async () => {
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

  it('are refused without a limit, whichever of the keys comes first', async () => {
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

  it('wait ten seconds at most, and the error names both keys', async () => {
    const { clock, engine } = start();
    const call = crossed(engine, 60_000, { shared: 'a', other: 'b' });
    for (let i = 0; i < 5; i++) await settled(); // both wait now
    await clock.advance(10_000);
    expect((await call)[1]).toMatchObject({
      reason: { message: expect.stringMatching(/'a'.*possible deadlock: this call holds 'b'/) },
    });
  });

  it('may wait without a limit for what their parent held when they parted', async () => {
    const { engine } = start();
    const done = await engine.withLock(['a', 'z'], {}, () =>
      Promise.all([1, 2].map(() => engine.withLock('a', { waitMs: Infinity }, settled))),
    );
    expect(done).toHaveLength(2);
  });
});

describe('a branch whose turn comes after the hold was lost', () => {
  it('does not join it: it asks for a hold of its own', async () => {
    const { clock, engine, other } = start();
    const longWork = makeGate();
    const seen: boolean[] = [];
    const tokens = new Set<number>();
    const call = engine.withLock('k', { renew: false, leaseMs: 1_000 }, (parent) => {
      tokens.add(parent.fencingToken);
      return Promise.all([
        engine.withLock('k', {}, () => parent.ensure(0).then(() => longWork.opened)),
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

describe('a branch that does not await a branch of its own', () => {
  it('keeps its turn until that one has ended: two never work at once', async () => {
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

describe('a branch whose turn comes after the hold has ended', () => {
  /** A call that waits for none of the branches that it starts, in which the same key is asked for. */
  const startBranches = async (engine: LockEngine, branches: (() => Promise<unknown>)[]) => {
    let ended: Promise<unknown> = Promise.resolve();
    await engine.withLock('k', {}, () => {
      ended = Promise.all(branches.map((branch) => branch()));
    });
    return { ended };
  };

  it('asks for a hold of its own, which excludes others', async () => {
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

  it('waits for whoever has the key by then', async () => {
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
