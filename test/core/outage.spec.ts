import { describe, expect, it } from '@jest/globals';
import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import { LockAbortedError, LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type { LockEvent } from '../../libs/nestjs-locked/src/core/lock-events.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import { FakeClock, settled } from '../support/fake-clock.js';
import { makeGate } from '../support/gate.js';
import { KEY, startScripted } from '../support/scripted-engine.js';
import { granted, ScriptedStore, unknown } from '../support/scripted-store.js';

const cause = new LockStoreError('the cable is out');
const refused = {
  code: 'LOCK_STORE_FAILED',
  key: 'other',
  workBegan: false,
  message: "Cannot lock 'other': the lock store has been away for 2000 ms: the cable is out",
};

async function startWithout(ms: number) {
  const started = await startScripted();
  started.store.listener.storeLost(cause);
  await started.clock.advance(ms);
  return started;
}

describe('while the store is away', () => {
  it('a call is sent as usual for failFastAfterMs (two seconds), and refused without a command after that', async () => {
    const { clock, store, engine, nothingLeft } = await startWithout(1_999);
    const early = engine.acquire('other', { waitMs: 0 });
    (await store.next('acquire')).reply({ ...unknown, neverRan: true });
    await expect(early).rejects.toMatchObject({ code: 'LOCK_STORE_FAILED' });

    await clock.advance(1);
    await expect(engine.acquire('other')).rejects.toMatchObject(refused);
    await expect(engine.tryAcquire('other')).rejects.toMatchObject(refused);
    await expect(engine.tryAcquire(['other', 'third'])).rejects.toMatchObject(refused);
    await expect(engine.withLock('other', {}, () => 'ran')).rejects.toMatchObject(refused);
    await nothingLeft();
  });

  it('a blocked event loop refuses no call: the news that the store is back may not have been read yet', async () => {
    const { clock, store, engine } = await startWithout(0);
    clock.block(10_000);
    const call = engine.acquire('other', { waitMs: 0 });
    const ask = await store.next('acquire');
    store.listener.storeBack();
    await clock.advance(0);
    ask.reply(granted(ask.command.token));
    expect((await call).isHeld).toBe(true);
  });

  it('a call that waits already goes on, and one for a key that is held here waits for that', async () => {
    const { clock, store, engine, waiting, grant } = await startScripted();
    const { hold, token } = await waiting({ waitMs: 60_000 });
    store.listener.storeLost(cause);
    await clock.advance(2_000);
    grant(token);
    (await store.next('renew')).reply({ kind: 'renewed', blockEnd: 10_100, waiters: 0 });
    expect((await hold).isHeld).toBe(true);
    const next = engine.acquire(KEY, { waitMs: 5_000 });
    void (await hold).release();
    await settled();
    expect((await next).isHeld).toBe(true);
  });

  it('a call whose wait ends gets the reason of the outage, not a missing answer', async () => {
    const { clock, store, engine } = await startScripted();
    const call = engine.acquire('other', { waitMs: 100 });
    const failed = expect(call).rejects.toMatchObject({
      code: 'LOCK_STORE_FAILED',
      message: expect.stringContaining(' of waiting: the cable is out'),
    });
    await store.next('acquire');
    store.listener.storeLost(cause);
    await clock.advance(2_000);
    await failed;
  });

  it('a nested call joins', async () => {
    const { clock, store, engine } = await startScripted();
    const mayNest = makeGate();
    const outer = engine.withLock(KEY, {}, async () => {
      await mayNest.opened;
      return engine.withLock(KEY, {}, () => 'joined');
    });
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    await settled();
    store.listener.storeLost(cause);
    await clock.advance(2_000);
    mayNest.open();
    (await store.next('release')).reply({ kind: 'released' });
    expect(await outer).toBe('joined');
  });

  it('a momentary outage is not reported, however often that happens', async () => {
    const { clock, store, events, nothingLeft } = await startScripted();
    for (let n = 0; n < 3; n++) {
      store.listener.storeLost(cause);
      await clock.advance(499);
      store.listener.storeBack();
      await clock.advance(2_000);
    }
    expect(events).toEqual([]);
    await nothingLeft();
  });

  it('nothing keeps running when the application closes in the first moment, or while it looks for the store', async () => {
    const lost = await startWithout(0);
    await lost.engine.close(0);
    await lost.clock.advance(5_000);
    expect([lost.events, lost.clock.timers]).toEqual([[], 0]);

    const clock = new FakeClock();
    const store = new ScriptedStore();
    store.open = async () => Promise.reject(cause);
    const options = resolveServiceOptions({});
    const late = new LockEngine({ store, clock, options, report: () => {}, random: () => 0 });
    late.openLater(cause);
    await clock.advance(2_500);
    await expect(late.inspect(KEY)).rejects.toThrow('the cable is out');
    await expect(late.forceRelease(KEY)).rejects.toThrow('the cable is out');
    await late.close(0);
    expect(clock.timers).toBe(0);
  });

  it('a start that fails leaves no timer behind, and reports nothing', async () => {
    const clock = new FakeClock();
    const store = new ScriptedStore();
    store.open = async (listener) => {
      listener.storeAwaited?.(cause);
      return Promise.reject(cause);
    };
    const events: LockEvent[] = [];
    const report = (event: LockEvent): void => void events.push(event);
    const options = resolveServiceOptions({});
    const engine = new LockEngine({ store, clock, options, report, random: () => 0 });
    await expect(engine.open()).rejects.toBe(cause);
    expect(clock.timers).toBe(0);
    expect(events).toEqual([]);
  });

  it('closing the application while it looks for the store is not reported as an outage', async () => {
    const clock = new FakeClock();
    const store = new ScriptedStore();
    let refuse!: (reason: Error) => void;
    store.open = async () => new Promise((_, reject) => (refuse = reject));
    store.close = async () => refuse(new LockAbortedError('the application is shutting down'));
    const events: LockEvent[] = [];
    const report = (event: LockEvent): void => void events.push(event);
    const options = resolveServiceOptions({});
    const late = new LockEngine({ store, clock, options, report, random: () => 0 });
    late.openLater(cause);
    const awaited = { type: 'store-awaited', address: 'The lock store', cause };
    expect(events).toEqual([awaited]);
    await late.close(0);
    await settled();
    expect(events).toEqual([awaited]);
  });

  it('work that ends gives its result at once, and the release follows', async () => {
    const { store, engine } = await startScripted();
    const mayEnd = makeGate();
    const work = engine.withLock(KEY, {}, () => mayEnd.opened.then(() => 'done'));
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    await settled();
    store.listener.storeLost(cause);
    mayEnd.open();
    expect(await work).toBe('done');
    expect((await store.next('release')).command.token).toBe(ask.command.token);
  });

  it('an outage that begins while a release is awaited ends that wait, and the release follows', async () => {
    const { store, engine } = await startScripted();
    const work = engine.withLock(KEY, {}, () => 'done');
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    const release = await store.next('release');
    expect(await Promise.race([work, settled().then(() => 'waits')])).toBe('waits');
    store.listener.storeLost(cause);
    expect(await Promise.race([work, settled().then(() => 'waits')])).toBe('done');
    release.reply(unknown);
    await settled();
    store.listener.storeBack();
    expect((await store.next('release')).command.token).toBe(ask.command.token);
  });

  it('a release is sent, but its answer is waited for only while calls do not fail at once', async () => {
    const { clock, store, held, events, nothingLeft } = await startScripted();
    const early = await held();
    store.listener.storeLost(cause);
    await clock.advance(1_999);
    const waits = early.hold.release();
    const first = await store.next('release');
    expect(await Promise.race([waits, settled().then(() => 'waits')])).toBe('waits');
    first.reply({ kind: 'released' });
    expect(await waits).toBe(true);
    store.listener.storeBack();

    const late = await held();
    const block = async (): Promise<string> => {
      await using lock = late.hold;
      return lock.key;
    };
    store.listener.storeLost(cause);
    await clock.advance(2_000);
    expect(await Promise.race([block(), settled().then(() => 'waits')])).toBe(KEY);
    await expect(late.hold.release()).rejects.toMatchObject({
      code: 'LOCK_STORE_FAILED',
      workBegan: true,
      message: `Cannot tell whether lock '${KEY}' was released: the cable is out; it ends with its lease`,
    });
    const second = await store.next('release');
    expect(second.command.token).toBe(late.token);
    second.reply(unknown);
    await settled();
    store.listener.storeBack();
    const again = await store.next('release');
    expect(again.command.token).toBe(late.token);
    again.reply({ kind: 'released' });
    await settled();
    expect(events).toContainEqual(
      expect.objectContaining({ type: 'release-unknown', isAway: true }),
    );
    await nothingLeft();
  });

  it('a release before a call that cannot have the lease is not waited for either', async () => {
    const { clock, store, engine, held } = await startScripted();
    const { hold, token } = await held();
    const next = engine.acquire(KEY, { renew: false, waitMs: 60_000 });
    store.listener.storeLost(cause);
    await clock.advance(2_000);
    const released = hold.release();
    const outcome = released.then(String, (error: LockStoreError) => error.code);
    expect(await Promise.race([outcome, settled().then(() => 'waits')])).toBe('LOCK_STORE_FAILED');
    expect((await store.next('release')).command.token).toBe(token);
    const ask = await store.next('acquire'); // behind it
    store.listener.storeBack();
    ask.reply(granted(ask.command.token));
    const lock = await next;
    void lock.release();
    (await store.next('release')).reply({ kind: 'released' });
    await settled();
  });

  it('a release before such a call is waited for while the store has been away for a moment only', async () => {
    const { clock, store, engine, held } = await startScripted();
    const { hold } = await held();
    const next = engine.acquire(KEY, { renew: false, waitMs: 60_000 });
    store.listener.storeLost(cause);
    await clock.advance(500);
    const released = hold.release();
    const requeue = await store.next('requeue');
    store.listener.storeBack();
    requeue.reply(granted(requeue.command.newToken));
    expect(await released).toBe(true);
    expect((await next).isHeld).toBe(true);
  });

  it('a release whose answer did not come in time is not waited for again', async () => {
    const { store, engine, held } = await startScripted();
    const { hold, token } = await held();
    void engine.acquire(KEY, { renew: false, waitMs: 60_000 }).catch(() => {});
    const outcome = hold.release().then(String, (error: LockStoreError) => error.code);
    const requeue = await store.next('requeue');
    store.listener.storeLost(cause);
    requeue.reply({ ...unknown, neverRan: true });
    expect(await Promise.race([outcome, settled().then(() => 'waits')])).toBe('LOCK_STORE_FAILED');
    expect((await store.next('release')).command.token).toBe(token);
  });

  it('operators get the error at once after two seconds, without a command', async () => {
    const asked: string[] = [];
    const inspector = {
      inspect: async (key: string) => void asked.push(key),
      revoke: async (key: string) => void asked.push(key),
      list: async function* (pattern: string) {
        asked.push(pattern);
        yield* [];
      },
    };
    const { clock, store, engine } = await startScripted();
    Object.assign(store.inspector, inspector);
    const list = async (): Promise<void> => {
      for await (const info of engine.list('stock:*')) throw new Error(info.key);
    };
    store.listener.storeLost(cause);
    await clock.advance(1_999);
    expect(await engine.inspect(KEY)).toBeNull();
    expect(await engine.forceRelease(KEY)).toBe(false);
    await list();
    expect(asked).toEqual([KEY, KEY, 'stock:*']);

    await clock.advance(1);
    const away = {
      code: 'LOCK_STORE_FAILED',
      message: 'The lock store has been away for 2000 ms: the cable is out',
    };
    await expect(engine.inspect(KEY)).rejects.toMatchObject(away);
    await expect(engine.forceRelease(KEY)).rejects.toMatchObject(away);
    await expect(list()).rejects.toMatchObject(away);
    expect(asked).toHaveLength(3);
  });

  it('operators get the error only for the node that has their key, unless they ask for all keys', async () => {
    const { clock, store, engine } = await startScripted();
    Object.assign(store, { nodeOf: (key: string) => `node of ${key}` });
    store.listener.storeLost(cause, 'node of other');
    await clock.advance(2_000);
    expect(await engine.inspect(KEY)).toBeNull();
    expect(await engine.forceRelease(KEY)).toBe(false);
    await expect(engine.inspect('other')).rejects.toBeInstanceOf(LockStoreError);
    const list = engine.list('*')[Symbol.asyncIterator]();
    await expect(list.next()).rejects.toBeInstanceOf(LockStoreError);
  });

  it('an outage that does not affect its key lets a call go on waiting, and no call is re-checked afterwards', async () => {
    const { store, engine } = await startScripted();
    const askedFor: string[] = [];
    const nodeOf = (key: string): string => {
      askedFor.push(key);
      return `node of ${key}`;
    };
    Object.assign(store, { nodeOf });
    const work = engine.withLock(KEY, {}, () => 'done');
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    const release = await store.next('release');
    askedFor.length = 0;
    store.listener.storeLost(cause, 'node of other');
    expect(askedFor).toEqual([KEY]);
    expect(await Promise.race([work, settled().then(() => 'waits')])).toBe('waits');
    release.reply({ kind: 'released' });
    expect(await work).toBe('done');
    askedFor.length = 0;
    store.listener.storeLost(cause, 'node of another');
    expect(askedFor).toEqual([]);
  });

  it('an outage is reported once for each reason, and once when it is over', async () => {
    const { clock, store, engine, events } = await startWithout(5_000);
    store.listener.storeLost(new LockStoreError('the cable is out'));
    const power = new LockStoreError('and now the power, too');
    store.listener.storeLost(power);
    await expect(engine.acquire('other')).rejects.toThrow('and now the power, too');
    await expect(engine.ping()).rejects.toThrow('and now the power, too');
    store.listener.storeLost(new LockStoreError('the cable is out')); // the two may alternate for hours
    await expect(engine.ping()).rejects.toThrow('the cable is out');
    store.listener.storeBack();
    store.listener.storeBack();
    await clock.advance(1_000);
    expect(events).toEqual([
      { type: 'store-lost', cause },
      { type: 'store-lost', cause: power },
      { type: 'store-back', awayMs: 5_000 },
    ]);
    expect(await engine.ping()).toBe(0);
    const call = engine.acquire('other');
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    expect((await call).isHeld).toBe(true);
  });
});
