/** What is said about the holder of a lock, and about those who wait: by `inspect`, `list`, errors and events. */
import { describe, expect, it } from '@jest/globals';
import { TestLocks } from 'nestjs-locked/testing';
import { hostname } from 'node:os';
import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import { LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type {
  BusyContext,
  LockOptions,
  LockServiceOptions,
} from '../../libs/nestjs-locked/src/core/lock.options.js';
import type { LockEvent } from '../../libs/nestjs-locked/src/core/lock-events.js';
import type { LockOverview } from '../../libs/nestjs-locked/src/core/lock-overview.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import { leaseToken } from '../../libs/nestjs-locked/src/core/store/lease-token.js';
import { InMemoryLockStore } from '../../libs/nestjs-locked/src/testing/in-memory-lock-store.js';
import { InMemoryLocks } from '../../libs/nestjs-locked/src/testing/in-memory-locks.js';
import { FakeClock, settled } from '../support/fake-clock.js';

/** Three processes that share a store. */
function start(options: LockServiceOptions = {}) {
  const clock = new FakeClock();
  const locks = new InMemoryLocks(clock);
  const process = () => {
    const events: LockEvent[] = [];
    const store = new InMemoryLockStore(locks, 30_000);
    const report = (event: LockEvent): void => void events.push(event);
    const engine = new LockEngine({
      store,
      options: resolveServiceOptions(options),
      report,
      clock,
    });
    return { engine, events, store, processId: store.processId };
  };
  return { clock, locks, a: process(), b: process(), c: process() };
}

const labelIn = async (engine: LockEngine, key = 'k') => (await engine.inspect(key))?.holder?.label;
const waitersIn = async (engine: LockEngine) => (await engine.inspect('k'))?.waiters;

const overviewOf = async (engine: LockEngine, pattern: string, most: number) =>
  (await engine.overviews([pattern], most))[0] as LockOverview;

/** A call that never gets the lock fails when the test ends, unnoticed. */
const waitFor = (engine: LockEngine, options: LockOptions = {}) => {
  const call = engine.acquire('k', { waitMs: 60_000, ...options });
  call.catch(() => {});
  return call;
};

describe('the holder', () => {
  it('has the label of the call, or else its call site', async () => {
    const { a, b } = start();
    await a.engine.withLock(
      'k',
      {},
      async () => {
        expect(await labelIn(a.engine)).toBe('Stock.take');
        expect(await labelIn(b.engine)).toBe('Stock.take');
      },
      'Stock.take',
    );
    await a.engine.withLock(
      'k',
      { label: 'sale' },
      async () => {
        expect(await labelIn(a.engine)).toBe('sale');
        expect(await labelIn(b.engine)).toBe('sale');
      },
      'Stock.take',
    );
    await a.engine.withLock('k', {}, async () => {
      expect(await labelIn(a.engine)).toBeUndefined();
      expect(await labelIn(b.engine)).toBeUndefined();
    });
  });

  it('is the call that has the key now, in its own process and, if that says so, in others', async () => {
    const { a, b, clock } = start();
    await b.engine.open(); // to receive the answer
    const first = await waitFor(a.engine, { label: 'first' });
    const [second, third] = [waitFor(a.engine, { label: 'second' }), waitFor(a.engine)];
    await clock.advance(5_000);
    const since = new Date(clock.wallNow());
    await first.release();
    const next = await second;
    await clock.advance(5_000);
    const { fencingToken } = next;
    for (const { engine } of [a, b]) {
      expect(await engine.inspect('k')).toMatchObject({
        holder: { processId: a.processId, label: 'second' },
        since,
        fencingToken,
      });
    }
    for await (const { holder } of a.engine.list('*')) expect(holder?.label).toBe('second');
    await next.release();
    await third;
    expect(await labelIn(a.engine)).toBeUndefined();
    expect(await labelIn(b.engine)).toBeUndefined();
  });

  it('is that of the lease in a list of another process, which asks nobody', async () => {
    const { a, b, locks } = start();
    const first = await waitFor(a.engine, { label: 'first' });
    const second = waitFor(a.engine, { label: 'second' });
    await first.release();
    await second;
    const send = locks.send.bind(locks);
    locks.send = (to, message) => {
      expect(message.kind).not.toBe('question');
      send(to, message);
    };
    for await (const { holder } of b.engine.list('*')) expect(holder?.label).toBe('first');
  });

  it.each([
    ['no answer', () => undefined],
    [
      'an answer of an older version',
      () => JSON.stringify({ process: 'p', host: 'h', pid: 1, waits: [] }),
    ],
    ['an answer that nobody can have written', () => '{"call":{"label":7}}'],
    ['an answer that another lease has it', () => ''],
  ])(
    'is what the store knows, half a second later at most, if there is %s',
    async (_what, text) => {
      const { a, b, clock, locks } = start();
      await b.engine.open();
      const first = await waitFor(a.engine, { label: 'first' });
      const second = waitFor(a.engine, { label: 'second' });
      await first.release();
      await second;
      const send = locks.send.bind(locks);
      locks.send = (to, message) => {
        if (message.kind !== 'answer') return send(to, message);
        const said = text();
        if (said !== undefined) send(to, { ...message, text: said });
      };
      const seen = b.engine.inspect('k');
      await clock.advance(500);
      expect(await seen).toMatchObject({ holder: { label: 'first' }, fencingToken: undefined });
    },
  );

  it('is what the store knows at once if its process hears nothing', async () => {
    const { b, locks } = start();
    const token = leaseToken('d'.repeat(32), 9, false, 'dead');
    locks.entry('k').holders = [{ token, expiresAt: Infinity }];
    expect(await labelIn(b.engine)).toBe('dead');
  });

  it('is what the store knows if nobody can be asked', async () => {
    const { a, b } = start();
    await waitFor(a.engine, { label: 'first' });
    b.store.inspector.ask = () => Promise.reject(new LockStoreError('refused'));
    expect(await labelIn(b.engine)).toBe('first');
    a.store.inspector.ask = () => Promise.reject(new Error('a process need not ask itself'));
    expect(await labelIn(a.engine)).toBe('first');
  });

  it('is what the store knows of a lost lease, whose process need not ask itself', async () => {
    const { a, locks } = start();
    const token = leaseToken(a.processId, 9, false, 'first');
    locks.entry('k').holders = [{ token, expiresAt: Infinity }]; // its release was lost
    let asked = 0;
    const { inspector } = a.store;
    inspector.ask = async () => {
      asked++;
      return [];
    };
    expect(await labelIn(a.engine)).toBe('first');
    expect(asked).toBe(0);
  });

  it('is not that of a lease that has come since', async () => {
    const { a, b, c } = start();
    await b.engine.open();
    const first = await waitFor(a.engine, { label: 'first' });
    const next = waitFor(c.engine, { label: 'next' });
    await settled();
    const { inspector } = b.store;
    const ask = inspector.ask.bind(inspector);
    inspector.ask = async (key, id) => {
      await first.release();
      await next;
      return ask(key, id);
    };
    expect((await b.engine.inspect('k'))?.holder).toMatchObject({
      processId: a.processId,
      label: 'first',
    });
  });

  it('is nobody while the lease is only kept for the next call', async () => {
    const { a, b } = start({ lingerMs: 30_000 });
    await b.engine.open();
    await (await waitFor(a.engine, { label: 'first' })).release();
    for (const { engine } of [a, b]) {
      expect(await engine.inspect('k')).toMatchObject({
        holder: { processId: a.processId, label: undefined },
        fencingToken: undefined,
      });
    }
  });

  it('is the call for which it was requested if an operator takes such a lease away', async () => {
    const { a } = start({ lingerMs: 30_000 });
    for (const label of ['first', 'second']) await (await waitFor(a.engine, { label })).release();
    expect(await a.engine.forceRelease('k')).toBe(true);
    const told = a.events.find((event) => event.type === 'force-released');
    expect(told?.holder?.label).toBe('first');
  });

  it('is the call for which the lease was requested, once no call here has it', async () => {
    const { a, locks } = start();
    const token = leaseToken(a.processId, 9, false, 'first');
    locks.entry('k').holders = [{ token, expiresAt: Infinity }]; // its release was lost
    expect(await labelIn(a.engine)).toBe('first');
  });

  it('is another process, whatever this one has believed', async () => {
    const { a, b, locks } = start();
    await waitFor(a.engine, { label: 'first' });
    const token = leaseToken(b.processId, 9, false, 'second');
    locks.entry('k').holders = [{ token, expiresAt: Infinity }]; // no message says so
    expect((await a.engine.inspect('k'))?.holder).toMatchObject({
      processId: b.processId,
      label: 'second',
    });
  });

  it('of several keys is shown for each of them', async () => {
    const { a, b } = start();
    await a.engine.withLock(['x', 'y'], { label: 'both' }, async () => {
      for (const { engine } of [a, b])
        expect([await labelIn(engine, 'x'), await labelIn(engine, 'y')]).toEqual(['both', 'both']);
    });
  });

  it('stays the outer call when a nested one joins', async () => {
    const { a } = start();
    await a.engine.withLock('k', { label: 'outer' }, () =>
      a.engine.withLock('k', { label: 'inner' }, async () =>
        expect(await labelIn(a.engine)).toBe('outer'),
      ),
    );
  });
});

describe('waiters', () => {
  it('counts the calls of the process that asks, and each other process once', async () => {
    const { a, b, c } = start();
    const held = await waitFor(a.engine);
    for (let i = 0; i < 3; i++) void waitFor(a.engine);
    expect(await waitersIn(a.engine)).toBe(3);
    expect(await waitersIn(b.engine)).toBe(0);
    for (let i = 0; i < 2; i++) void waitFor(b.engine);
    void waitFor(c.engine);
    await settled();
    expect(await waitersIn(a.engine)).toBe(5); // three calls here, b and c
    expect(await waitersIn(b.engine)).toBe(3); // two calls here, c
    expect(await waitersIn(c.engine)).toBe(2); // one call here, b
    for await (const info of a.engine.list('*')) expect(info.waiters).toBe(5);
    await held.release();
  });

  it('does not count calls that have given up', async () => {
    const { a, clock } = start();
    await waitFor(a.engine);
    const [impatient] = [waitFor(a.engine, { waitMs: 10 }), waitFor(a.engine)];
    expect(await waitersIn(a.engine)).toBe(2);
    await clock.advance(11);
    await expect(impatient).rejects.toThrow(/was not acquired within 10 ms/);
    expect(await waitersIn(a.engine)).toBe(1);
  });
});

describe('the error of a call that did not get the lock', () => {
  it.each([0, 50])('names the holder in its own process, after %i ms', async (waitMs) => {
    const { a, clock } = start();
    await waitFor(a.engine, { label: 'nightly' });
    const busy = expect(a.engine.acquire('k', { waitMs })).rejects.toMatchObject({
      holder: { processId: a.processId, host: hostname(), pid: process.pid, label: 'nightly' },
      message: expect.stringMatching(/; the holder is process \d+ on \S+ \(this one\), 'nightly'$/),
    });
    await clock.advance(waitMs);
    await busy;
  });

  it.each([0, 50])(
    'names the call that has the key now, not the first, after %i ms',
    async (waitMs) => {
      const { a, clock } = start();
      const first = await waitFor(a.engine, { label: 'first' });
      const second = waitFor(a.engine, { label: 'second' });
      await first.release();
      await second;
      const options = { waitMs, onBusy: ({ holder }: BusyContext) => holder?.label };
      const busy = a.engine.withLock('k', options, () => 'ran');
      await clock.advance(waitMs);
      expect(await busy).toBe('second');
    },
  );
});

describe('a lost lock', () => {
  it('names the call in error and event, and what to do', async () => {
    const { a, clock } = start();
    const lock = await a.engine.acquire('k', { label: 'nightly', maxHoldMs: 1_000 });
    await clock.advance(1_000);
    const message =
      "Lock 'k' of 'nightly' was lost (max-hold): the work took longer than maxHoldMs (1000), or the lock of acquire was not released; release it in a finally block, end the work when lock.signal aborts, or set a longer one";
    expect(() => lock.assertHeld()).toThrow(message);
    expect(a.events).toMatchObject([
      { type: 'lost', key: 'k', label: 'nightly', error: { message } },
    ]);
  });

  it('says when its fixed lease has ended', async () => {
    const { a, clock } = start();
    const lock = await a.engine.acquire('k', { label: 'nightly', renew: false, leaseMs: 1_000 });
    await clock.advance(1_000);
    expect(() => lock.assertHeld()).toThrow(
      "Lock 'k' of 'nightly' was lost (expired): its fixed lease has ended, leaseMs (1000) after",
    );
  });

  it('is told as what it was, in the process of the holder and in that of the operator', async () => {
    const { a, b } = start();
    const lock = await a.engine.acquire('k', { label: 'nightly' });
    expect(await b.engine.forceRelease('k')).toBe(true);
    await settled();
    expect(() => lock.assertHeld()).toThrow(
      "Lock 'k' of 'nightly' was lost (revoked): an operator took the key away with forceRelease; end the work when lock.signal aborts",
    );
    expect(a.events).toMatchObject([{ type: 'lost', key: 'k', label: 'nightly' }]);
    const holder = { processId: a.processId, host: hostname(), pid: process.pid, label: 'nightly' };
    expect(b.events).toEqual([{ type: 'force-released', key: 'k', holder }]);
    expect(await b.engine.forceRelease('k')).toBe(false);
    expect(b.events).toHaveLength(1);
  });

  it('is told once of each kind if holder and operator are one process', async () => {
    const { a } = start();
    const first = await a.engine.acquire('k', { label: 'first' });
    const second = waitFor(a.engine, { label: 'second' });
    await first.release();
    await second;
    await a.engine.forceRelease('k');
    expect(a.events).toHaveLength(2);
    expect(a.events).toMatchObject([
      { type: 'lost', key: 'k', label: 'second' }, // in memory, the notice comes first
      { type: 'force-released', key: 'k', holder: { label: 'second' } },
    ]);
  });
});

describe('the queue', () => {
  const queueIn = async (engine: LockEngine) =>
    (await engine.inspect('k'))?.queue.map(({ label, pid }) => [label, pid]);
  const named = (...labels: string[]) => labels.map((label) => [label, process.pid]);

  it('has the calls of the process that asks, and the call for which another process waits', async () => {
    const { a, b, c } = start();
    await waitFor(a.engine);
    void waitFor(b.engine, { label: 'b1' });
    await settled();
    void waitFor(c.engine, { label: 'c1' });
    void waitFor(b.engine, { label: 'b2' });
    await settled();
    expect(await queueIn(a.engine)).toEqual(named('b1', 'c1'));
    expect(await queueIn(b.engine)).toEqual(named('b1', 'b2', 'c1'));
    expect(await queueIn(c.engine)).toEqual(named('b1', 'c1'));
  });

  it('begins with the calls of the process that has the key', async () => {
    const { a, b } = start();
    await waitFor(a.engine);
    void waitFor(b.engine, { label: 'b1' });
    await settled();
    void waitFor(a.engine, { label: 'a1' });
    expect(await queueIn(a.engine)).toEqual(named('a1', 'b1'));
    expect(await queueIn(b.engine)).toEqual(named('b1'));
  });

  it('says how long each has waited, and names fifty at the most', async () => {
    const { a, clock } = start();
    await waitFor(a.engine);
    for (let i = 0; i < 60; i++) {
      void waitFor(a.engine);
      await clock.advance(10);
    }
    const { queue = [], waiters } = (await a.engine.inspect('k')) ?? {};
    expect([queue.length, waiters]).toEqual([50, 60]);
    expect([queue[0]?.waitedMs, queue[1]?.waitedMs]).toEqual([600, 590]);
  });
});

describe('an overview', () => {
  it('counts calls here, and other processes once, as inspect does', async () => {
    const { a, b, clock } = start();
    await waitFor(a.engine);
    void waitFor(b.engine);
    void waitFor(b.engine);
    await settled();
    await clock.advance(1_000);
    void waitFor(a.engine);
    await a.engine.acquire('free');
    for (const [engine, waiting] of [
      [a.engine, 2],
      [b.engine, 2],
    ] as const) {
      const { held, waiting: counted, oldestWaitMs, locks } = await overviewOf(engine, '*', 9);
      expect([held, counted, oldestWaitMs]).toEqual([2, waiting, 1_000]);
      expect(locks.map(({ key }) => key)).toEqual(['k', 'free']);
      expect(locks[0]?.waiters).toBe((await engine.inspect('k'))?.waiters);
    }
    expect((await overviewOf(a.engine, '*', 1)).locks).toHaveLength(1);
    expect(await overviewOf(a.engine, 'f*', 9)).toMatchObject({
      held: 1,
      waiting: 0,
      oldestWaitMs: 0,
    });
  });

  it('begins with the most wanted, then with what is waited for or held longest', async () => {
    const { a, b, clock, locks } = start();
    const acquire = async (key: string) => {
      const token = leaseToken(a.processId, clock.wallNow() * 1_000);
      locks.entry(key).holders = [{ token, expiresAt: Infinity }];
      await clock.advance(10);
    };
    for (const key of ['old', 'new', 'wanted', 'long', 'most']) await acquire(key);
    const wait = (key: string) => {
      b.engine.acquire(key, { waitMs: 60_000 }).catch(() => {});
      return clock.advance(10);
    };
    for (const key of ['long', 'wanted', 'most', 'most']) await wait(key);
    const { locks: shown } = await overviewOf(b.engine, '*', 9);
    expect(shown.map(({ key }) => key)).toEqual(['most', 'long', 'wanted', 'old', 'new']);
  });
});

describe('forceRelease with a lease id', () => {
  it('takes the lock from that lease, and from no later one', async () => {
    const { a, b } = start();
    const first = await waitFor(a.engine);
    const { leaseId } = (await b.engine.inspect('k')) ?? {};
    await first.release();
    expect(await b.engine.forceRelease('k', leaseId)).toBe(false);
    const second = await waitFor(a.engine);
    expect(await b.engine.forceRelease('k', leaseId)).toBe(false);
    expect(second.isHeld).toBe(true);
    const seen = await b.engine.inspect('k');
    expect(await b.engine.forceRelease('k', seen?.leaseId)).toBe(true);
    await settled();
    expect(second.isHeld).toBe(false);
  });

  it('takes nothing if the id is missing by mistake', async () => {
    const locks = new TestLocks().service();
    const lock = await locks.acquire('k');
    const missing = undefined as unknown as string;
    await expect(locks.forceRelease('k', missing)).rejects.toThrow(
      "Cannot release 'k': the lease id is undefined",
    );
    expect(lock.isHeld).toBe(true);
    expect(await locks.forceRelease('k')).toBe(true);
  });
});
