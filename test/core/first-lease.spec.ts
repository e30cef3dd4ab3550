import { describe, expect, it } from '@jest/globals';
import { LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type {
  LockOptions,
  LockServiceOptions,
} from '../../libs/nestjs-locked/src/core/lock.options.js';
import type { ObservedHour } from '../../libs/nestjs-locked/src/core/store/lock-store.js';
import { FakeClock, settled } from '../support/fake-clock.js';
import { KEY, startScripted } from '../support/scripted-engine.js';
import { granted, queued, ScriptedStore } from '../support/scripted-store.js';

const RENEWED = { kind: 'renewed', blockEnd: 2_000_000, waiters: 0 } as const;
const SHORT = { firstLeaseMs: 6_000 } as const;

/** The length that the first command of a call asks for. */
async function asked(service: LockServiceOptions, call: LockOptions = {}): Promise<number> {
  const { store, engine } = await startScripted(service);
  void engine.acquire(KEY, call).catch(() => {});
  return (await store.next('acquire')).command.leaseMs;
}

describe('firstLeaseMs', () => {
  it('is the length until the first renewal, which asks for the whole lease', async () => {
    const { clock, store, held } = await startScripted(SHORT);
    const { hold } = await held();
    expect(hold.remainingMs()).toBeGreaterThan(5_900);
    expect(hold.remainingMs()).toBeLessThanOrEqual(6_000);
    await clock.advance(1_900);
    expect(await store.unanswered()).toEqual([]);
    await clock.advance(100); // a third of it
    const renewal = await store.next('renew');
    expect(renewal.command.leaseMs).toBe(30_000);
    renewal.reply(RENEWED);
    await settled();
    expect(hold.remainingMs()).toBeGreaterThan(29_600);
    await clock.advance(9_400);
    expect(await store.unanswered()).toEqual([]);
    await clock.advance(600);
    expect((await store.next('renew')).command.leaseMs).toBe(30_000);
  });

  it('is over when no renewal is answered: the lock is lost so much sooner', async () => {
    const { clock, held } = await startScripted(SHORT);
    const { hold } = await held();
    await clock.advance(5_900);
    expect(hold.isHeld).toBe(true);
    await clock.advance(100);
    expect(hold.isHeld).toBe(false);
    expect(hold.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'expired' });
  });

  it('is asked for when the queue of the store is looked at again, and by the last try', async () => {
    const { clock, store, waiting } = await startScripted({ ...SHORT, waitMs: 7_000 });
    const { hold } = await waiting();
    await clock.advance(5_001);
    const recheck = await store.next('recheck');
    expect(recheck.command.leaseMs).toBe(6_000);
    recheck.reply(queued(recheck.command.newToken));
    await clock.advance(2_000);
    const last = await store.next('leave');
    expect(last.command).toMatchObject({ take: true, leaseMs: 6_000 });
    last.reply({ kind: 'left' });
    await clock.advance(1_000);
    await expect(hold).rejects.toMatchObject({ code: 'LOCK_NOT_ACQUIRED' });
  });

  it('is asked for when the lease goes to others, and is wanted again', async () => {
    const { store, engine, held, wanted } = await startScripted({ ...SHORT, localHandovers: 0 });
    const { hold, token } = await held();
    wanted(token);
    void engine.acquire(KEY).catch(() => {});
    (await store.next('renew')).reply(RENEWED); // for the call that waits, which is not to wait for that as well
    void hold.release();
    expect((await store.next('requeue')).command.leaseMs).toBe(6_000);
  });

  it.each<[string, LockServiceOptions, LockOptions, number]>([
    ['no call, by default', {}, {}, 30_000],
    ['the calls of a module', SHORT, {}, 6_000],
    ['a call', {}, SHORT, 6_000],
    ['a call, rather than what its module has', SHORT, { firstLeaseMs: 3_000 }, 3_000],
    ['a call with permits', SHORT, { permits: 2 }, 6_000],
    ['a call with a leaseMs and a firstLeaseMs', {}, { ...SHORT, leaseMs: 9_000 }, 6_000],
    ['no call with a leaseMs only', SHORT, { leaseMs: 9_000 }, 9_000],
    ['no call whose leaseMs is shorter', {}, { ...SHORT, leaseMs: 2_000 }, 2_000],
    ['no reader, whose lease others join', SHORT, { mode: 'shared' }, 30_000],
    ['no fixed lease', SHORT, { renew: false }, 30_000],
    ['no key that is to stay taken', SHORT, { holdAtLeastMs: 60_000 }, 30_000],
    ['no call that learns, as long as nothing is known', { firstLeaseMs: 'learned' }, {}, 30_000],
  ])('applies to %s', async (_, service, call, leaseMs) => {
    expect(await asked(service, call)).toBe(leaseMs);
  });

  it('is whole when the last answer took too long for it, or it would end before each confirmation', async () => {
    const { clock, store, engine } = await startScripted({ firstLeaseMs: 3_000 });
    const call = engine.acquire(KEY);
    const ask = await store.next('acquire');
    expect(ask.command.leaseMs).toBe(3_000);
    await clock.advance(3_500);
    ask.reply(granted(ask.command.token));
    const confirmation = await store.next('renew');
    await clock.advance(3_500);
    confirmation.reply({ kind: 'lost' });
    const again = await store.next('acquire');
    expect(again.command.leaseMs).toBe(30_000);
    await clock.advance(3_500);
    again.reply(granted(again.command.token));
    expect((await call).isHeld).toBe(true);
  });

  it('a fixed lease that gets a short one of another call is whole before its work begins', async () => {
    const { store, engine } = await startScripted(SHORT);
    const controller = new AbortController();
    const first = engine.acquire(KEY, { signal: controller.signal });
    const fixed = engine.acquire(KEY, { renew: false });
    const ask = await store.next('acquire');
    expect(ask.command.leaseMs).toBe(6_000);
    controller.abort();
    await expect(first).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    ask.reply(granted(ask.command.token));
    const renewal = await store.next('renew');
    expect(renewal.command.leaseMs).toBe(30_000);
    renewal.reply(RENEWED);
    expect((await fixed).remainingMs()).toBeGreaterThan(29_600);
  });

  it.each([
    [{ firstLeaseMs: 2_999 }, /'learned', or a whole number of at least 3000 .*; got 2999|2999/],
    [{ firstLeaseMs: 'often' }, /'learned', or a whole number of at least 3000/],
    [{ firstLeaseMs: Infinity }, /'learned', or a whole number of at least 3000/],
    [{ firstLeaseMs: 30_001 }, /at most leaseMs \(30000\).*set a longer leaseMs/],
    [{ firstLeaseMs: 5_000, leaseMs: 4_000 }, /at most leaseMs \(4000\)/],
  ])('%j is refused at the start', async (options, message) => {
    await expect(startScripted(options as LockServiceOptions)).rejects.toThrow(message);
  });
});

const HOUR_MS = 3_600_000;
const NOW = Math.floor(new FakeClock().wallNow() / HOUR_MS);

/** So many hours up to now, each with the same stall. */
function hours(count: number, ms = 0): ObservedHour[] {
  return Array.from({ length: count }, (_, i) => [NOW - i, ms]);
}

/** A store whose processes have observed these stalls. */
function storeWith(observed: readonly ObservedHour[]): ScriptedStore {
  const store = new ScriptedStore();
  store.shareStalls = async () => ({ kind: 'shared', observed });
  return store;
}

/** A service that learns, after holds of this length. */
async function learning(observed: readonly ObservedHour[], holdMs = 50, holds = 50, longHolds = 0) {
  const scene = await startScripted({ firstLeaseMs: 'learned' }, storeWith(observed));
  for (let i = 0; i < longHolds + holds; i++) {
    const { hold } = await scene.held();
    await scene.clock.advance(i < longHolds ? 2_000 : holdMs);
    const released = hold.release();
    (await scene.store.next('release')).reply({ kind: 'released' });
    await released;
  }
  /** The length that the next call asks for. */
  const next = async (call: LockOptions = {}): Promise<number> => {
    void scene.engine.acquire(KEY, call).catch(() => {});
    return (await scene.store.next('acquire')).command.leaseMs;
  };
  return { ...scene, next };
}

describe("firstLeaseMs: 'learned'", () => {
  it.each<[string, readonly ObservedHour[], number]>([
    ['a day, calm', hours(24), 3_000],
    ['a day, with a stall of two seconds', hours(24, 2_000), 8_000],
    ['a stall that was no whole number', [...hours(24), [NOW, 1_000.1]], 4_001],
    ['two days, with a stall in the present hour', [...hours(48), [NOW, 4_000]], 16_000],
    ['a week, half of what is older than a day', [...hours(100), [NOW - 100, 4_000]], 8_000],
    ['the whole of what is just not older', [...hours(48), [NOW - 23, 4_000]], 16_000],
    ['half of what just is', [...hours(48), [NOW - 24, 4_000]], 8_000],
    ['no stall that is older than a week', [...hours(48), [NOW - 168, 4_000]], 3_000],
    ['no hour of a clock that goes wrong', [...hours(48), [NOW + 1, 4_000]], 3_000],
    ['stalls that would want more than a lease', hours(24, 60_000), 30_000],
    ['less than a day', hours(23), 30_000],
    ['a day, but not of the last week', hours(200).slice(169), 30_000],
    ['nothing', [], 30_000],
  ])('reckons with %s', async (_, observed, leaseMs) => {
    expect(await (await learning(observed)).next()).toBe(leaseMs);
  });

  it.each<[string, number, number, number]>([
    ['most keys are held for less than a second', 500, 50, 3_000],
    ['they are held for just less than a second', 990, 50, 3_000],
    ['they are held for longer', 1_010, 50, 30_000],
    ['there were too few holds to say so', 50, 49, 30_000],
  ])('is as short if %s', async (_, holdMs, holds, leaseMs) => {
    expect(await (await learning(hours(24), holdMs, holds)).next()).toBe(leaseMs);
  });

  it.each([
    [2, 3_000],
    [3, 30_000],
  ])('after %s long holds and 50 short ones, is of %s ms', async (longHolds, leaseMs) => {
    expect(await (await learning(hours(24), 50, 50, longHolds)).next()).toBe(leaseMs);
  });

  it('tells templates apart', async () => {
    const { engine, store } = await learning(hours(24));
    void engine.acquire('report:7').catch(() => {});
    expect((await store.next('acquire')).command.leaseMs).toBe(30_000);
  });

  it('forgets holds with time, as half of them count after an hour', async () => {
    const { clock, next } = await learning(hours(24));
    clock.block(HOUR_MS);
    expect(await next()).toBe(30_000);
  });

  it('measures for how long its own event loop was blocked', async () => {
    const { clock, next } = await learning(hours(24));
    clock.block(2_000);
    await clock.advance(100);
    const leaseMs = await next();
    expect(leaseMs).toBeGreaterThanOrEqual(7_600);
    expect(leaseMs).toBeLessThanOrEqual(8_000);
  });

  it('measures for how long the machine slept', async () => {
    const { clock, next } = await learning(hours(24));
    clock.stepWall(5_000);
    await clock.advance(100);
    expect(await next()).toBe(20_000);
  });

  it('measures how long an answer took', async () => {
    const { clock, store, engine, next } = await learning(hours(24));
    const call = engine.acquire(KEY);
    const ask = await store.next('acquire');
    await clock.advance(1_250);
    ask.reply(granted(ask.command.token));
    void (await call).release();
    (await store.next('release')).reply({ kind: 'released' });
    expect(await next()).toBe(5_000);
  });

  it('measures for how long the store was away', async () => {
    const { clock, store, next } = await learning(hours(24));
    store.listener.storeLost(new LockStoreError('gone'));
    await clock.advance(6_000);
    store.listener.storeBack();
    expect(await next()).toBe(24_000);
  });

  it('of a call alone begins to observe with the first of them', async () => {
    const store = storeWith(hours(24));
    let shared = 0;
    const share = store.shareStalls;
    store.shareStalls = (hours) => (shared++, share(hours));
    const { engine, clock } = await startScripted({}, store);
    expect([shared, clock.timers]).toEqual([0, 0]);
    void engine.acquire(KEY, { firstLeaseMs: 'learned' }).catch(() => {});
    await settled();
    expect(shared).toBe(1);
  });

  it('shares what it has observed after each hour, and at its end', async () => {
    const store = new ScriptedStore();
    const shared: (readonly ObservedHour[])[] = [];
    store.shareStalls = async (hours) => {
      shared.push(hours);
      return { kind: 'shared', observed: [] };
    };
    const { clock, engine } = await startScripted({ firstLeaseMs: 'learned' }, store);
    expect(shared).toEqual([[]]);
    clock.block(700);
    await clock.advance(0);
    clock.block(HOUR_MS - 1_000);
    await clock.advance(1_000);
    expect(shared[1]).toEqual([[NOW, expect.any(Number)]]);
    const closed = engine.close(1_000);
    await clock.advance(0);
    await closed;
    expect(shared[2]).toEqual([[NOW + 1, expect.any(Number)]]);
    expect(clock.timers).toBe(0);
  });

  it.each([
    [false, 0],
    [true, 1],
  ])('shares nothing at its end while the store is away; back: %s', async (isBack, count) => {
    const { clock, store, engine } = await startScripted({ firstLeaseMs: 'learned' });
    store.listener.storeLost(new LockStoreError('gone'));
    await clock.advance(3_000);
    if (isBack) store.listener.storeBack();
    let shared = 0;
    store.shareStalls = async () => (shared++, { kind: 'shared', observed: [] });
    await engine.close(1_000);
    expect(shared).toBe(count);
  });

  it('does not wait for long at its end', async () => {
    const store = storeWith(hours(24));
    const { clock, engine } = await startScripted({ firstLeaseMs: 'learned' }, store);
    store.shareStalls = () => new Promise(() => {});
    let isClosed = false;
    void engine.close(10_000).then(() => (isClosed = true));
    await clock.advance(900);
    expect(isClosed).toBe(false);
    await clock.advance(200);
    expect(isClosed).toBe(true);
  });

  it('asks for whole leases if the store does not say what others have observed', async () => {
    const store = new ScriptedStore();
    store.shareStalls = async () => ({ kind: 'unknown', cause: new LockStoreError('away') });
    const { engine } = await startScripted({ firstLeaseMs: 'learned' }, store);
    void engine.acquire(KEY).catch(() => {});
    expect((await store.next('acquire')).command.leaseMs).toBe(30_000);
  });
});
