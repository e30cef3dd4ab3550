/** Campaigns of `lead`, on locks in memory. */
import { describe, expect, it } from '@jest/globals';
import { AsyncLocalStorage } from 'node:async_hooks';
import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import type { LeaderWork, LeadOptions } from '../../libs/nestjs-locked/src/core/leadership.js';
import { LockAbortedError, LockLostError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type { Lock } from '../../libs/nestjs-locked/src/core/lock.js';
import type { LockServiceOptions } from '../../libs/nestjs-locked/src/core/lock.options.js';
import type { LockEvent } from '../../libs/nestjs-locked/src/core/lock-events.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import { LockService } from '../../libs/nestjs-locked/src/nest/lock.service.js';
import { InMemoryLockStore } from '../../libs/nestjs-locked/src/testing/in-memory-lock-store.js';
import { InMemoryLocks } from '../../libs/nestjs-locked/src/testing/in-memory-locks.js';
import {
  InterruptibleStore,
  StoreLine,
} from '../../libs/nestjs-locked/src/testing/interruptible-store.js';
import { FakeClock, settled } from '../support/fake-clock.js';
import { makeGate } from '../support/gate.js';

const KEY = 'mail-pump';

/** Processes that share a store. */
function start(options: LockServiceOptions = {}) {
  const clock = new FakeClock();
  const memory = new InMemoryLocks(clock);
  const line = new StoreLine();
  const replica = () => {
    const events: LockEvent[] = [];
    const engine = new LockEngine({
      store: new InterruptibleStore(new InMemoryLockStore(memory, 30_000), line, true),
      options: resolveServiceOptions(options),
      report: (event) => {
        events.push(event);
        one.onEvent(event);
      },
      clock,
      random: () => 1,
    });
    const told = (): string[] =>
      events.map((event) => ('reason' in event ? `${event.type} ${event.reason}` : event.type));
    const onEvent: (event: LockEvent) => void = () => {};
    const one = { engine, locks: new LockService(engine), events, told, onEvent };
    return one;
  };
  return { clock, line, a: replica(), b: replica() };
}

/** Work that records its turns, and ends when its signal aborts. */
function untilAborted() {
  const turns: { signal: AbortSignal; lock: Lock }[] = [];
  const work: LeaderWork = async (signal, lock) => {
    turns.push({ signal, lock });
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
  };
  return { turns, work };
}

describe('lead', () => {
  it('runs the work in one process, with its lock, and the others wait', async () => {
    const { a, b } = start();
    const [inA, inB] = [untilAborted(), untilAborted()];
    const first = a.locks.lead(KEY, inA.work);
    await settled();
    const second = b.locks.lead(KEY, { label: 'pump of b' }, inB.work);
    await settled();

    expect([inA.turns.length, inB.turns.length]).toEqual([1, 0]);
    expect([first.isLeader, second.isLeader, first.key]).toEqual([true, false, KEY]);
    const { lock } = inA.turns[0]!;
    expect(a.events).toEqual([
      { type: 'elected', key: KEY, label: 'lead', template: KEY, fencingToken: lock.fencingToken },
    ]);
    expect((await a.locks.inspect(KEY))?.holder?.label).toBe('lead');
    expect(b.events).toEqual([]);
  });

  it('runs outside the context of its caller, but under its own lock', async () => {
    const { a } = start();
    const storage = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    const mayEnd = makeGate();
    await a.locks.withLock('outer', async () => {
      storage.run('of the caller', () =>
        a.locks.lead(KEY, async (_signal, lock) => {
          a.locks.assertHeld(KEY);
          const nested = await a.locks.withLock(KEY, (inner) => inner.fencingToken);
          seen.push(storage.getStore(), a.locks.current() === lock, a.locks.current('outer'));
          seen.push(nested === lock.fencingToken);
          await mayEnd.opened;
        }),
      );
      await settled();
    });
    mayEnd.open();
    expect(seen).toEqual([undefined, true, undefined, true]);
  });

  it('waits for the lock that its caller holds', async () => {
    const { a } = start();
    const { turns, work } = untilAborted();
    await a.locks.withLock(KEY, async () => {
      a.locks.lead(KEY, work);
      await settled();
      expect(turns).toEqual([]);
    });
    await settled();
    expect(turns).toHaveLength(1);
  });
});

describe('a work that returns', () => {
  it('resigns: the campaign has ended, and another process takes over at once', async () => {
    const { a, b } = start();
    const mayEnd = makeGate();
    const first = a.locks.lead(KEY, () => mayEnd.opened);
    await settled();
    const { turns, work } = untilAborted();
    b.locks.lead(KEY, work);
    await settled();

    mayEnd.open();
    await first.done;
    await settled();

    expect(a.told()).toEqual(['elected', 'deposed resigned']);
    expect([first.isLeader, turns.length]).toEqual([false, 1]);
    expect(a.engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
    a.locks.lead(KEY, work); // it may campaign again
    await settled();
  });
});

describe('a leader that loses its lock', () => {
  it('is told by the signal, and campaigns again when its work has ended, never before', async () => {
    const { a, clock } = start({ maxHoldMs: 1_000 });
    const mayEnd = makeGate();
    const signals: AbortSignal[] = [];
    const leadership = a.locks.lead(KEY, (signal) => {
      signals.push(signal);
      return signals.length === 1 ? mayEnd.opened : new Promise(() => {});
    });
    await settled();
    await clock.advance(600_000); // the module's maxHoldMs does not count
    expect(leadership.isLeader).toBe(true);

    await a.locks.forceRelease(KEY);
    expect(signals[0]!.aborted).toBe(true);
    expect(signals[0]!.reason).toBeInstanceOf(LockLostError);
    expect(signals[0]!.reason).toMatchObject({ reason: 'revoked' });
    expect(leadership.isLeader).toBe(false);
    await clock.advance(9_000);
    expect(a.told()).toEqual(['elected', 'deposed revoked', 'lost', 'force-released']);

    await clock.advance(1_000);
    expect(a.events.at(-1)).toMatchObject({ type: 'leader-overdue', key: KEY, sinceMs: 10_000 });
    await clock.advance(60_000);
    expect([signals.length, a.events.length]).toEqual([1, 5]);

    mayEnd.open();
    await settled();
    expect([signals.length, signals[1]!.aborted, leadership.isLeader]).toEqual([2, false, true]);
    expect(a.told().slice(5)).toEqual(['elected']);
  });

  it('may throw because of that: it is not reported, and there is no pause', async () => {
    const { a, clock } = start();
    let turns = 0;
    a.locks.lead(KEY, async (signal, lock) => {
      turns += 1;
      await new Promise((_, reject) => {
        const thrown = [
          () => reject(signal.reason as Error),
          () => reject(new DOMException('aborted', 'AbortError')),
          () => lock.run(() => 0).catch(reject),
          () => {},
        ][turns - 1]!;
        signal.addEventListener('abort', thrown);
      });
    });
    await settled();
    for (const turn of [1, 2, 3]) {
      expect(turns).toBe(turn);
      await a.locks.forceRelease(KEY);
      await clock.advance(1_500); // the key is kept for a second
    }
    expect(turns).toBe(4);
    expect(a.told()).not.toContain('leader-failed');
  });

  it('reports another error, and pauses', async () => {
    const { a, clock } = start();
    let turns = 0;
    a.locks.lead(KEY, async (signal) => {
      turns += 1;
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      throw new Error('the tidying up failed');
    });
    await settled();
    await a.locks.forceRelease(KEY);
    await settled();
    expect(a.told()).toEqual([
      'elected',
      'deposed revoked',
      'lost',
      'force-released',
      'leader-failed',
    ]);
    await clock.advance(999);
    expect(turns).toBe(1);
    await clock.advance(1);
    expect(turns).toBe(2);
  });

  it('ends after the maxHoldMs of the campaign', async () => {
    const { a, clock } = start();
    const { turns, work } = untilAborted();
    a.locks.lead(KEY, { maxHoldMs: 5_000, leaseMs: 1_000 }, work);
    await settled();
    await clock.advance(5_000);
    expect(turns[0]!.signal.reason).toMatchObject({ reason: 'max-hold' });
    await clock.advance(1_000);
    expect(turns).toHaveLength(2);
    expect(a.told()).toEqual(['elected', 'deposed max-hold', 'lost', 'elected']);
  });
});

describe('a work that throws', () => {
  it('is reported, gives others a turn, and runs again after pauses that grow', async () => {
    const { a, b, clock } = start();
    const error = new Error('no mail server');
    let failures = 0;
    const leadership = a.locks.lead(KEY, async () => {
      failures += 1;
      await Promise.resolve();
      throw error;
    });
    await settled();
    expect(a.events.slice(1)).toEqual([
      { type: 'leader-failed', key: KEY, label: 'lead', template: KEY, error, retryInMs: 1_000 },
      { type: 'deposed', key: KEY, label: 'lead', template: KEY, reason: 'failed' },
    ]);
    expect(await b.locks.tryAcquire(KEY).then((lock) => lock?.release())).toBe(true);
    await clock.advance(999);
    expect(failures).toBe(1);
    await clock.advance(1);
    expect(failures).toBe(2);
    await clock.advance(1_999);
    expect(failures).toBe(2);
    await clock.advance(1);
    expect(failures).toBe(3);
    await clock.advance(4_000 + 8_000 + 16_000 + 32_000 + 60_000 + 60_000);
    expect(failures).toBe(9);
    await leadership.resign(); // ends the pause
    expect(a.engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });

  it('is reported even if what it throws looks like the end of a signal', async () => {
    const { a, clock } = start();
    let failures = 0;
    a.locks.lead(KEY, async () => {
      failures += 1;
      await Promise.reject(new DOMException('of its own signal', 'AbortError'));
    });
    await settled();
    expect(a.told()).toEqual(['elected', 'leader-failed', 'deposed failed']);
    await clock.advance(999);
    expect(failures).toBe(1);
  });

  it('stops what it has left behind by the signal', async () => {
    const { a } = start();
    const signals: AbortSignal[] = [];
    a.locks.lead(KEY, async (signal) => {
      signals.push(signal);
      await Promise.reject(new Error('one of several branches'));
    });
    await settled();
    expect(signals[0]!.aborted).toBe(true);
    expect(a.told()).toEqual(['elected', 'leader-failed', 'deposed failed']);
  });

  it('pauses for a second again if it had led for more than a minute', async () => {
    const { a, clock } = start();
    let failures = 0;
    let minutes = makeGate();
    a.locks.lead(KEY, async () => {
      failures += 1;
      if (failures === 3) await minutes.opened;
      throw new Error('failed');
    });
    await settled();
    await clock.advance(1_000 + 2_000);
    expect(failures).toBe(3);
    await clock.advance(60_001);
    minutes.open();
    await settled();
    expect(a.events.at(-2)).toMatchObject({ type: 'leader-failed', retryInMs: 1_000 });
    minutes = makeGate();
  });
});

describe('resign', () => {
  it('aborts the signal, and releases the lock when the work has ended', async () => {
    const { a, b, clock } = start();
    const mayEnd = makeGate();
    const reasons: unknown[] = [];
    let wasLeader: boolean | undefined;
    a.onEvent = ({ type }) => {
      if (type === 'deposed') wasLeader = leadership.isLeader;
    };
    const leadership = a.locks.lead(KEY, async (signal) => {
      signal.addEventListener('abort', () => reasons.push(signal.reason));
      await mayEnd.opened;
    });
    await settled();
    const resigned = leadership.resign();
    await settled();
    expect(reasons).toEqual([expect.any(LockAbortedError)]);
    expect(leadership.isLeader).toBe(true); // until its work has ended
    expect(await b.locks.tryAcquire(KEY)).toBeNull();

    mayEnd.open();
    await resigned;
    expect(wasLeader).toBe(false);
    await clock.advance(20_000);
    expect(a.told()).toEqual(['elected', 'deposed resigned']);
    expect(await b.locks.tryAcquire(KEY)).not.toBeNull();
  });

  it('ends a campaign that waits', async () => {
    const { a, b } = start();
    const lock = await b.locks.acquire(KEY);
    {
      await using leadership = a.locks.lead(KEY, untilAborted().work);
      await settled();
      expect(leadership.isLeader).toBe(false);
    }
    expect(a.engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
    expect(a.events).toEqual([]);
    await lock.release();
  });

  it('does not wait for the end of the work in which it is called', async () => {
    const { a } = start();
    const leadership = a.locks.lead(KEY, async () => {
      await settled();
      await a.locks.withLock([KEY, 'another'], () => leadership.resign());
      await leadership.resign();
    });
    await leadership.done;
    expect(a.told()).toEqual(['elected', 'deposed resigned']);
  });

  it('runs what listens to the signal in the context of the work', async () => {
    const { a } = start();
    let current: unknown;
    const leadership = a.locks.lead(KEY, async (signal) => {
      await new Promise((resolve) => {
        signal.addEventListener('abort', () => resolve((current = a.locks.current()?.key)));
      });
    });
    await settled();
    await a.locks.withLock('of the caller', () => leadership.resign());
    expect(current).toBe(KEY);
  });
});

describe('an application that closes', () => {
  it('aborts the signals, releases each lock when its work has ended, and ends the others', async () => {
    const { a, b } = start();
    const mayEnd = makeGate();
    const reasons: unknown[] = [];
    const leader = a.locks.lead(KEY, async (signal) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      reasons.push(signal.reason);
      await mayEnd.opened;
    });
    const { turns, work } = untilAborted();
    await settled();
    b.locks.lead(KEY, work);
    const held = await b.locks.acquire('other');
    const candidate = a.locks.lead('other', untilAborted().work);
    await settled();

    a.engine.drain();
    await candidate.done;
    expect(reasons).toMatchObject([{ code: 'LOCK_ABORTED' }]);
    expect(turns).toEqual([]);
    expect(() => a.locks.lead('third', work)).toThrow(LockAbortedError);

    mayEnd.open();
    await a.engine.close(5_000);
    await leader.done;
    await settled();
    expect(a.told()).toEqual(['elected', 'deposed closed']);
    expect(turns).toHaveLength(1);
    await held.release();
  });

  it('lets the lock of a work that does not end run out', async () => {
    const { a, b, clock } = start({ leaseMs: 3_000 });
    a.locks.lead(KEY, () => new Promise(() => {}));
    await settled();
    const closed = a.engine.close(1_000);
    const { turns, work } = untilAborted();
    b.locks.lead(KEY, work);
    await clock.advance(1_000);
    await closed;
    expect(a.told()).toEqual(['elected', 'deposed shutdown', 'lost']);
    expect(turns).toEqual([]);
    await clock.advance(3_000);
    expect(turns).toHaveLength(1);
  });
});

describe('a store that is away', () => {
  it('does not end the campaign, and is told once', async () => {
    const { a, line, clock } = start();
    line.cut();
    const { turns, work } = untilAborted();
    a.locks.lead(KEY, work);
    await clock.advance(60_000);
    expect(a.told().filter((type) => type === 'campaign-failed').length).toBeLessThanOrEqual(1);
    line.mend();
    await clock.advance(2_000);
    expect(turns).toHaveLength(1);
  });

  it('takes the lock from the leader when its lease ends; it leads again when the store is back', async () => {
    const { a, line, clock } = start({ leaseMs: 3_000 });
    const { turns, work } = untilAborted();
    a.locks.lead(KEY, work);
    await settled();
    line.cut();
    await clock.advance(60_000);
    expect(turns[0]!.signal.reason).toMatchObject({ reason: 'expired' });
    expect(turns).toHaveLength(1);
    expect(a.told().filter((type) => type === 'campaign-failed')).toHaveLength(1);
    line.mend();
    await clock.advance(2_000);
    expect(turns).toHaveLength(2);
  });
});

describe('a wrong call', () => {
  const bad = (options: unknown): LeadOptions => options as LeadOptions;

  it.each([
    [{ waitMs: 5 }, /'waitMs': leave it out: a leader waits until it is elected/],
    [{ signal: AbortSignal.abort() }, /'signal': leave it out, and call resign\(\)/],
    [{ lease: 5_000 }, /'lease': /],
    [{ leaseMs: 5 }, /leaseMs: 5 must be a whole number/],
    [{ lingerMs: 5 }, /'lingerMs': it is an option of the module/],
    [5, /must be an object of options: \{ leaseMs, maxHoldMs, label \}/],
  ])('%s is refused', (options, message) => {
    const { a } = start();
    expect(() => a.locks.lead(KEY, bad(options), untilAborted().work)).toThrow(message);
  });

  it('needs a key and a work', () => {
    const { a } = start();
    expect(() => a.locks.lead('', untilAborted().work)).toThrow(/key/);
    expect(() => a.locks.lead(KEY, {}, undefined as never)).toThrow(
      /must be a function; write locks\.lead\('mail-pump'/,
    );
    expect(() => a.locks.lead(KEY, undefined as never)).toThrow(/must be a function/);
    expect(() => a.locks.lead(KEY, untilAborted().work as never, {} as never)).toThrow(
      /the options come before the work: lead\(key, options, work\)/,
    );
  });

  it('is refused a second time for the same key, until the first campaign has ended', async () => {
    const { a } = start();
    const { work } = untilAborted();
    const first = a.locks.lead(KEY, work);
    expect(() => a.locks.lead(KEY, work)).toThrow(/twice in one lock service/);
    await first.resign();
    await a.locks.lead(KEY, work).resign();
  });
});
