/** What subscribers of the channels of `node:diagnostics_channel` are told, and what it does to the work. */
import { describe, expect, it } from '@jest/globals';
import { AsyncLocalStorage } from 'node:async_hooks';
import { channel, tracingChannel } from 'node:diagnostics_channel';
import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import {
  AROUND_WORK,
  type LockAcquireMessage,
  type LockEventMessage,
  type LockHoldMessage,
  type WithAroundWork,
} from '../../libs/nestjs-locked/src/core/events/lock-messages.js';
import { LockNotAcquiredError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type { LockServiceOptions } from '../../libs/nestjs-locked/src/core/lock.options.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import { InMemoryLockStore } from '../../libs/nestjs-locked/src/testing/in-memory-lock-store.js';
import { InMemoryLocks } from '../../libs/nestjs-locked/src/testing/in-memory-locks.js';
import { TestLocks } from '../../libs/nestjs-locked/src/testing/test-locks.js';
import { afterTest } from '../support/after-test.js';
import { FakeClock, settled } from '../support/fake-clock.js';

type Step = 'start' | 'end' | 'asyncStart' | 'asyncEnd' | 'error';

const STEPS: readonly Step[] = ['start', 'end', 'asyncStart', 'asyncEnd', 'error'];

/** Records the steps of a tracing channel, each with its message as it is then. */
function listenTo<Message extends object>(name: string) {
  const steps: { step: Step; message: Message; told: object }[] = [];
  const traced = tracingChannel(name);
  for (const step of STEPS) {
    const listener = (told: unknown): void =>
      void steps.push({ step, message: { ...(told as Message) }, told: told as object });
    traced[step].subscribe(listener);
    afterTest(() => void traced[step].unsubscribe(listener));
  }
  return steps;
}

function listenToEvents() {
  const messages: LockEventMessage[] = [];
  const listener = (message: unknown): void => void messages.push(message as LockEventMessage);
  channel('nestjs-locked:event').subscribe(listener);
  afterTest(() => void channel('nestjs-locked:event').unsubscribe(listener));
  return messages;
}

/** Two processes that share a store. */
function start(options: LockServiceOptions = {}, name?: string) {
  const clock = new FakeClock();
  const locks = new InMemoryLocks(clock);
  const engine = (): LockEngine =>
    new LockEngine({
      store: new InMemoryLockStore(locks, 30_000),
      options: resolveServiceOptions(options),
      report: () => {},
      clock,
      name,
    });
  return { clock, locks, a: engine(), b: engine() };
}

describe('nestjs-locked:acquire', () => {
  it('tells about a call at its beginning and when it has its lock, with one object', async () => {
    const steps = listenTo<LockAcquireMessage>('nestjs-locked:acquire');
    const { a } = start({}, 'orders');
    await a.withLock('stock:1', { waitMs: 5_000 }, () => {}, 'Stock.take', 'stock:<id>');
    const asked = {
      service: 'orders',
      keys: ['stock:1'],
      template: 'stock:<id>',
      label: 'Stock.take',
      waitMs: 5_000,
    };
    const held = { ...asked, via: 'free', waitedMs: 0 };
    expect(steps.map(({ step, message }) => [step, message])).toEqual([
      ['start', asked],
      ['end', asked],
      ['asyncStart', held],
      ['asyncEnd', held],
    ]);
    expect(new Set(steps.map(({ told }) => told)).size).toBe(1);
  });

  it('says what was in the way of a call that did not get its lock, and for how long', async () => {
    const { a, b, clock } = start();
    await a.acquire('stock:1');
    const steps = listenTo<LockAcquireMessage>('nestjs-locked:acquire');
    const refused = b.acquire('stock:1', { waitMs: 300 });
    refused.catch(() => {});
    await clock.advance(300);
    await expect(refused).rejects.toThrow(LockNotAcquiredError);
    expect(steps.map(({ step }) => step)).toEqual([
      'start',
      'end',
      'error',
      'asyncStart',
      'asyncEnd',
    ]);
    const { message } = steps.at(-1) as (typeof steps)[number];
    expect(message).toMatchObject({ waitedMs: 300, error: { code: 'LOCK_NOT_ACQUIRED' } });
    expect(message.via).toBeUndefined();
  });

  it('says how the call got its lock: free, handed over, from another call, joined', async () => {
    const { a, b } = start();
    const steps = listenTo<LockAcquireMessage>('nestjs-locked:acquire');
    const first = await a.acquire('k', { label: 'free' });
    const second = a.acquire('k', { label: 'local' });
    const third = b.acquire('k', { label: 'handed-over' });
    await settled();
    await first.release();
    await (await second).release();
    const last = await third;
    await last.run(() => b.withLock('k', { label: 'joined' }, () => {}));
    await last.release();
    const ended = steps.filter(({ step }) => step === 'asyncEnd').map(({ message }) => message);
    expect(ended.map(({ label, via }) => [label, via])).toEqual(
      ['free', 'local', 'handed-over', 'joined'].map((via) => [via, via]),
    );
  });

  it('says local of calls that another one here has kept waiting, whatever happened to the lease', async () => {
    const { a, b, clock } = start({ leaseMs: 30_000 });
    const steps = listenTo<LockAcquireMessage>('nestjs-locked:acquire');
    const work = (): Promise<void> => settled();
    await Promise.all(['1', '2', '3', '4'].map((label) => a.withLock('k', { label }, work)));
    const other = await b.acquire('foreign', { maxHoldMs: 1_000, label: 'holder' });
    const waiting = a.acquire('foreign', { label: 'waiter', waitMs: 60_000 });
    await clock.advance(40_000);
    await (await waiting).release();
    await other.release();
    const ended = steps.filter(({ step }) => step === 'asyncEnd').map(({ message }) => message);
    expect(ended.map(({ label, via }) => [label, via])).toEqual([
      ['1', 'free'],
      ['2', 'local'],
      ['3', 'local'],
      ['4', 'local'],
      ['holder', 'free'],
      ['waiter', 'handed-over'],
    ]);
  });

  it('lets no subscriber change what is locked', async () => {
    const { a } = start();
    const { start: asked } = tracingChannel('nestjs-locked:acquire');
    const redact = (message: unknown): void => {
      (message as { keys: string[] }).keys[0] = '***';
    };
    asked.subscribe(redact);
    afterTest(() => void asked.unsubscribe(redact));
    const lock = await a.acquire('secret:1');
    expect(lock.key).toBe('secret:1');
    await lock.release();
  });

  it('calls an unused lease that another call has left behind local', async () => {
    const { a } = start({ lingerMs: 1_000 });
    await a.withLock('k', {}, () => {});
    const steps = listenTo<LockAcquireMessage>('nestjs-locked:acquire');
    await a.withLock('k', {}, () => {});
    expect(steps.at(-1)?.message.via).toBe('local');
  });

  it('says of several keys how the slowest was got', async () => {
    const { a, b } = start();
    const other = await b.acquire('b');
    const steps = listenTo<LockAcquireMessage>('nestjs-locked:acquire');
    const call = a.acquire(['c', 'b', 'a']);
    await settled();
    await other.release();
    await (await call).release();
    expect(steps.at(-1)?.message).toMatchObject({ keys: ['a', 'b', 'c'], via: 'handed-over' });
  });

  it.each([
    ['stock:1', 'stock:*'],
    ['tenant:7:order:3', 'tenant:*'],
    ['nightly-report', '*'],
  ])('groups the key %s, whose template nobody knows, as %s', async (key, template) => {
    const steps = listenTo<LockAcquireMessage>('nestjs-locked:acquire');
    const { a } = start();
    await a.withLock(key, {}, () => {});
    expect(steps[0]?.message.template).toBe(template);
  });
});

describe('a call that has to wait', () => {
  const queuedIn = (messages: readonly LockEventMessage[]) =>
    messages.flatMap(({ service, event, request }) =>
      event.type === 'queued' ? { service, ...event, request } : [],
    );

  it('is told once, with its key, what it is, and who has the key', async () => {
    const { a, b, clock } = start({}, 'orders');
    const messages = listenToEvents();
    const steps = listenTo<LockAcquireMessage>('nestjs-locked:acquire');
    const held = await a.acquire('stock:1');
    const here = a.withLock('stock:1', {}, () => {}, 'Stock.take', 'stock:<id>');
    const there = b.withLock('stock:1', {}, () => {}, 'Stock.give', 'stock:<id>');
    await clock.advance(9_000); // in which the second process has looked again
    const queued = { service: 'orders', type: 'queued', key: 'stock:1', template: 'stock:<id>' };
    const asked = steps.filter(({ step }) => step === 'start').map(({ told }) => told);
    expect(queuedIn(messages)).toEqual([
      { ...queued, label: 'Stock.take', for: 'local', request: asked[1] },
      { ...queued, label: 'Stock.give', for: 'store', request: asked[2] },
    ]);
    await held.release();
    await Promise.all([here, there]);
    expect(queuedIn(messages)).toHaveLength(2);
  });

  it('is told as soon as that is known, if several come at once', async () => {
    const { a, b, clock } = start();
    const messages = listenToEvents();
    const calls = ['1', '2', '3'].map((label) => a.acquire('k', { label }));
    const others = ['4', '5'].map((label) => b.acquire('k', { label }));
    await settled();
    expect(queuedIn(messages).map(({ label, for: by }) => [label, by])).toEqual([
      ['2', 'local'],
      ['3', 'local'],
      ['4', 'store'],
      ['5', 'store'],
    ]);
    const last = b.acquire('k', { label: '6' });
    expect(queuedIn(messages).at(-1)).toMatchObject({ label: '6', for: 'store' });
    for (const call of [...calls, ...others, last]) {
      await clock.advance(1);
      await (await call).release();
    }
    expect(queuedIn(messages)).toHaveLength(5);
  });

  it('is not told again when the lease goes to another process before it', async () => {
    const { a, b, clock } = start({ localHandovers: 0 });
    const messages = listenToEvents();
    const held = await a.acquire('k');
    const calls = [a.acquire('k', { label: 'first' }), b.acquire('k', { label: 'between' })];
    await settled();
    void held.release();
    calls.push(a.acquire('k', { label: 'last' })); // while the lease is requested again
    const released = calls.map(async (call) => (await call).release());
    await clock.advance(1_000);
    await Promise.all(released);
    expect(queuedIn(messages).map(({ label }) => label)).toEqual(['first', 'between', 'last']);
  });

  it('is not told of what it gets at once, of a single try, or of what it joins', async () => {
    const { a, b } = start({ lingerMs: 1_000 });
    const messages = listenToEvents();
    await a.withLock('k', {}, () => a.withLock('k', {}, () => {}));
    await a.withLock('k', {}, async () => {
      await (await a.tryAcquire('k'))?.release(); // joins
      expect(await b.tryAcquire('k')).toBeNull();
    });
    await a.withLock(['k', 'l'], {}, () => {});
    expect(queuedIn(messages)).toEqual([]);
  });

  it('is told for each key of several for which it waits', async () => {
    const { a, b, clock } = start();
    const [x, z] = [await b.acquire('x'), await b.acquire('z')];
    const messages = listenToEvents();
    const several = a.acquire(['x', 'y', 'z']);
    await clock.advance(1);
    await x.release();
    await clock.advance(1);
    await z.release();
    await (await several).release();
    expect(queuedIn(messages).map(({ key }) => key)).toEqual(['x', 'z']);
  });

  it('is told if another branch of the same call has the key', async () => {
    const { a } = start();
    const messages = listenToEvents();
    await a.withLock('k', {}, () =>
      Promise.all(['one', 'other'].map((label) => a.withLock('k', { label }, () => settled()))),
    );
    expect(queuedIn(messages)).toMatchObject([{ label: 'other', for: 'local' }]);
  });

  it('may be ended by the subscriber that is told', async () => {
    const { a, b } = start();
    const held = await a.acquire('k');
    const ended = new AbortController();
    const listener = (message: unknown): void => {
      if ((message as LockEventMessage).event.type === 'queued') ended.abort();
    };
    channel('nestjs-locked:event').subscribe(listener);
    afterTest(() => void channel('nestjs-locked:event').unsubscribe(listener));
    const { signal } = ended;
    for (const engine of [a, b])
      await expect(engine.acquire('k', { signal })).rejects.toThrow('aborted');
    await settled();
    await held.release();
    for (const { residue } of [a, b]) expect(residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });

  it('is not told while it is unknown whether the key is free', async () => {
    const locks = new TestLocks({ waitMs: 500, failFastAfterMs: 60_000 });
    const service = locks.service();
    await service.withLock('other', () => {});
    const messages = listenToEvents();
    locks.storeDown();
    const call = service.acquire('k');
    call.catch(() => {});
    await locks.advance(1_600);
    await expect(call).rejects.toMatchObject({ code: 'LOCK_STORE_FAILED' });
    expect(queuedIn(messages)).toEqual([]);
  });
});

describe('nestjs-locked:hold', () => {
  it('lasts from the beginning of the work to the release', async () => {
    const { a, clock } = start();
    const steps = listenTo<LockHoldMessage>('nestjs-locked:hold');
    let token: number | undefined;
    const work = a.withLock(
      'stock:1',
      {},
      async (lock) => {
        token = lock.fencingToken;
        expect(steps.map(({ step }) => step)).toEqual(['start']);
        await new Promise<void>((resolve) => void clock.after(40, resolve));
      },
      'Stock.take',
    );
    await clock.advance(40);
    await work;
    expect(steps.map(({ step }) => step)).toEqual(['start', 'end', 'asyncStart', 'asyncEnd']);
    expect(steps.at(-1)?.message).toEqual({
      service: undefined,
      keys: ['stock:1'],
      template: 'stock:*',
      label: 'Stock.take',
      fencingToken: token,
      via: 'free',
      heldMs: 40,
      end: 'released',
    });
  });

  it('lasts until the release of a lock that acquire() has returned', async () => {
    const { a } = start();
    const steps = listenTo<LockHoldMessage>('nestjs-locked:hold');
    const lock = await a.acquire('k');
    expect(steps.map(({ step }) => step)).toEqual(['start', 'end']);
    await lock.release();
    await lock.release();
    expect(steps.map(({ step }) => step)).toEqual(['start', 'end', 'asyncStart', 'asyncEnd']);
  });

  it('gives the work the stores that subscribers have bound, and ends after work that throws', async () => {
    const { a } = start();
    const steps = listenTo<LockHoldMessage>('nestjs-locked:hold');
    const store = new AsyncLocalStorage<string>();
    const { start: begins } = tracingChannel('nestjs-locked:hold');
    begins.bindStore(store, (message) => (message as LockHoldMessage).keys.join());
    afterTest(() => void begins.unbindStore(store));
    const seen = await a.withLock('k', {}, async () => {
      await settled();
      return store.getStore();
    });
    expect(seen).toBe('k');
    expect(store.getStore()).toBeUndefined();
    const failing = a.withLock('k', {}, () => {
      throw new Error('the work failed');
    });
    await expect(failing).rejects.toThrow('the work failed');
    expect(steps.filter(({ step }) => step === 'asyncEnd')).toHaveLength(2);
    expect(steps.filter(({ step }) => step === 'error')).toHaveLength(0);
  });

  it('says why a lock was lost', async () => {
    const { a, clock } = start();
    const steps = listenTo<LockHoldMessage>('nestjs-locked:hold');
    const lock = await a.acquire('k', { maxHoldMs: 1_000 });
    await clock.advance(1_000);
    await lock.release();
    expect(steps.at(-1)).toMatchObject({
      step: 'asyncEnd',
      message: { end: 'lost', lost: 'max-hold', heldMs: 1_000 },
    });
  });

  it('says that a key was not ours any more when it was released', async () => {
    const { a, locks } = start();
    const steps = listenTo<LockHoldMessage>('nestjs-locked:hold');
    const lock = await a.acquire('k');
    locks.entry('k').holders = [];
    expect(await lock.release()).toBe(false);
    expect(steps.at(-1)?.message).toMatchObject({ end: 'lost', lost: 'deleted' });
  });

  it('says that it is unknown whether the lock was released', async () => {
    const locks = new TestLocks();
    const steps = listenTo<LockHoldMessage>('nestjs-locked:hold');
    const lock = await locks.service().acquire('k');
    locks.storeDown();
    await expect(lock.release()).rejects.toMatchObject({ code: 'LOCK_STORE_FAILED' });
    expect(steps.at(-1)?.message.end).toBe('unknown');
  });

  it('runs the work in what a subscriber has set around it', async () => {
    const { a } = start();
    const around: string[] = [];
    const { start: begins } = tracingChannel('nestjs-locked:hold');
    const listener = (message: unknown): void => {
      (message as WithAroundWork)[AROUND_WORK] = (work) => {
        around.push('before');
        return work();
      };
    };
    begins.subscribe(listener);
    afterTest(() => void begins.unsubscribe(listener));
    await a.withLock('k', {}, () => void around.push('work'));
    expect(around).toEqual(['before', 'work']);
  });

  it('has no message for a call that joins, nor for a subscriber that came later', async () => {
    const { a } = start();
    const lock = await a.acquire('k');
    const steps = listenTo<LockHoldMessage>('nestjs-locked:hold');
    await lock.run(() => a.withLock('k', {}, () => {}));
    await lock.release();
    expect(steps).toEqual([]);
  });
});

describe('nestjs-locked:event', () => {
  it('tells what is logged, with the service', async () => {
    const { a, clock } = start({}, 'orders');
    const messages = listenToEvents();
    const lock = await a.acquire('stock:1', { maxHoldMs: 1_000, label: 'Stock.take' });
    await clock.advance(1_000);
    await lock.release();
    expect(messages).toMatchObject([
      {
        service: 'orders',
        event: { type: 'lost', key: 'stock:1', label: 'Stock.take', template: 'stock:*' },
      },
    ]);
  });

  it('tells of each renewal how long the lease would still have lasted', async () => {
    const { a, clock } = start({ leaseMs: 30_000 });
    const messages = listenToEvents();
    const lock = await a.acquire('stock:1');
    await clock.advance(10_000);
    expect(messages.map(({ event }) => event)).toMatchObject([
      { type: 'renewed', key: 'stock:1', template: 'stock:*' },
    ]);
    const [{ event }] = messages as [LockEventMessage];
    const { marginMs } = event as Extract<typeof event, { type: 'renewed' }>;
    expect(marginMs).toBeGreaterThan(19_000);
    expect(marginMs).toBeLessThanOrEqual(20_000);
    await lock.release();
  });

  it('tells once that renewals were late, with the lock that has the least time left', async () => {
    const { a, clock } = start({ leaseMs: 30_000 });
    const first = await a.acquire('first', { label: 'Stock.take' });
    await clock.advance(1_000);
    const second = await a.acquire('second');
    const messages = listenToEvents();
    clock.block(25_000);
    await clock.advance(0);
    const late = messages.filter(({ event }) => event.type === 'renewed-late');
    expect(late.map(({ event }) => event)).toEqual([
      {
        type: 'renewed-late',
        key: 'first',
        label: 'Stock.take',
        template: '*',
        lateMs: expect.closeTo(16_000, -3),
        remainingMs: expect.closeTo(4_000, -3),
        leases: 2,
        isBackedUp: false,
      },
    ]);
    await Promise.all([first.release(), second.release()]);
  });

  it('does not call a renewal late that nobody needed before, or that a slow answer has made due', async () => {
    const { a, clock } = start({ leaseMs: 3_000, lingerMs: 2_500 });
    await a.withLock('k', {}, () => {});
    const messages = listenToEvents();
    await clock.advance(1_800);
    const lock = await a.acquire('k', { leaseMs: 900 });
    await clock.advance(100);
    expect(messages.map(({ event }) => event.type)).not.toContain('renewed-late');
    await lock.release();
  });

  it('does not call a renewal late that was due a moment ago', async () => {
    const { a, clock } = start({ leaseMs: 30_000 });
    const lock = await a.acquire('k');
    const messages = listenToEvents();
    clock.block(14_000);
    await clock.advance(0);
    expect(messages.map(({ event }) => event.type)).toEqual(['renewed']);
    await lock.release();
  });
});

/** Last, because the groups are those of the process. */
describe('templates of keys that nobody knows', () => {
  it('make a hundred groups at most', async () => {
    const { a } = start();
    const steps = listenTo<LockAcquireMessage>('nestjs-locked:acquire');
    for (let i = 0; i < 150; i++) await a.withLock(`tenant${i}:cart`, {}, () => {});
    await a.withLock('tenant1:cart', {}, () => {});
    const templates = new Set(steps.map(({ message }) => message.template));
    expect(templates.size).toBeLessThanOrEqual(101);
    expect(templates).toContain('*');
    expect(steps.at(-1)?.message.template).toBe('tenant1:*');
  });
});
