/** Defects seen in other lock libraries that can be shown to be absent here without a network. */
import { describe, expect, it } from '@jest/globals';
import {
  LockNotAcquiredError,
  LockStoreError,
} from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { inMemoryEngine } from '../../libs/nestjs-locked/src/testing/in-memory-engine.js';
import { InMemoryLocks } from '../../libs/nestjs-locked/src/testing/in-memory-locks.js';
import { FakeClock, settled } from '../support/fake-clock.js';
import { KEY, startScripted } from '../support/scripted-engine.js';
import { granted, unknown } from '../support/scripted-store.js';

const NOTHING = { queues: 0, tokens: 0, timers: 0 };
const renewed = { kind: 'renewed', blockEnd: 2_000_000, waiters: 0 } as const;

describe('waiting', () => {
  it('a try of one call does not wait, whatever the default is [D95]', async () => {
    const { store, engine, nothingLeft } = await startScripted({ waitMs: 60_000 });
    const refused = expect(engine.acquire(KEY, { waitMs: 0 })).rejects.toThrow(
      LockNotAcquiredError,
    );
    const ask = await store.next('acquire');
    expect(ask.command.nowait).toBe(true);
    ask.reply({ kind: 'busy', remainingMs: 30_000 });
    await refused;
    await nothingLeft();
  });

  it('wait timers are cleaned up [D96]', async () => {
    const { store, waiting, grant, nothingLeft } = await startScripted();
    const { hold, token } = await waiting({ waitMs: 3_600_000 });
    grant(token);
    void (await hold).release();
    (await store.next('release')).reply({ kind: 'released' });
    await nothingLeft();
  });

  it('the listener on the signal of a wait is removed [D97]', async () => {
    const { store, engine } = await startScripted();
    const controller = new AbortController();
    let listeners = 0;
    const { signal } = controller;
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = (...args: Parameters<typeof add>) => (listeners++, add(...args));
    signal.removeEventListener = (...args: Parameters<typeof remove>) => (
      listeners--,
      remove(...args)
    );
    const hold = engine.acquire(KEY, { signal });
    const ask = await store.next('acquire');
    expect(listeners).toBe(1);
    ask.reply(granted(ask.command.token));
    await hold;
    expect(listeners).toBe(0);
  });

  it('contention is not a fault: nothing is reported [D98]', async () => {
    const { clock, store, events, waiting } = await startScripted();
    const { hold } = await waiting({ waitMs: 400 });
    await clock.advance(400);
    (await store.next('leave')).reply({ kind: 'left' });
    await expect(hold).rejects.toThrow(LockNotAcquiredError);
    expect(events).toEqual([]);
  });

  it('a failing Redis is not mistaken for a busy lock: `skip` does not hide it [D99]', async () => {
    const { store, engine } = await startScripted();
    let ran = false;
    for (const onBusy of ['skip', () => 'busy'] as const) {
      const call = engine.withLock(KEY, { waitMs: 0, onBusy }, () => (ran = true));
      const refused = expect(call).rejects.toThrow(LockStoreError);
      (await store.next('acquire')).reply(unknown);
      await refused;
      (await store.next('leave')).reply({ kind: 'left' });
      await settled();
    }
    expect(ran).toBe(false);
  });

  it('a second, failing try does not touch the lock of the first [D100]', async () => {
    const { store, engine, held, nothingLeft } = await startScripted();
    const { hold, token } = await held();
    await expect(engine.acquire(KEY, { waitMs: 0 })).rejects.toThrow(LockNotAcquiredError);
    expect(hold.isHeld).toBe(true);
    const released = hold.release();
    const release = await store.next('release');
    expect(release.command.token).toBe(token);
    release.reply({ kind: 'released' });
    expect(await released).toBe(true);
    await nothingLeft();
  });
});

describe('renewing', () => {
  it('the shortest lease is not renewed in a storm [D111]', async () => {
    const { clock, store, held } = await startScripted({ leaseMs: 500 });
    const { hold } = await held();
    let renewals = 0;
    for (let passed = 0; passed < 10_000; passed += 5) {
      await clock.advance(5);
      if ((await store.unanswered()).length === 0) continue;
      (await store.next('renew')).reply(renewed);
      renewals++;
    }
    expect(hold.isHeld).toBe(true);
    expect(renewals).toBeGreaterThanOrEqual(10_000 / 170);
    expect(renewals).toBeLessThanOrEqual(10_000 / 125);
  });

  it('a renewal that fails at once is not repeated without a pause [D112]', async () => {
    const { clock, store, held } = await startScripted();
    await held();
    await clock.advance(10_000);
    let renewals = 0;
    for (let passed = 0; passed < 1_000; passed++) {
      for (let left = (await store.unanswered()).length; left > 0; left--) {
        (await store.next('renew')).reply(unknown);
        renewals++;
      }
      await clock.advance(1);
    }
    expect(renewals).toBeGreaterThan(5);
    expect(renewals).toBeLessThanOrEqual(11);
  });

  it('a lease with little time left is still renewed, and kept [D114]', async () => {
    const { clock, store, held } = await startScripted();
    const { hold } = await held();
    clock.block(29_500);
    await clock.advance(0);
    (await store.next('renew')).reply(renewed);
    await settled();
    expect(hold.remainingMs()).toBe(29_700);
  });

  it('a renewal that is answered after the release arms no timer and revives nothing [D132]', async () => {
    const { clock, store, held, nothingLeft } = await startScripted();
    const { hold } = await held();
    await clock.advance(10_000);
    const renewal = await store.next('renew');
    void hold.release();
    const release = await store.next('release');
    renewal.reply(renewed);
    release.reply({ kind: 'released' });
    await nothingLeft();
    await clock.advance(120_000);
    expect(await store.unanswered()).toEqual([]);
    expect(hold.isHeld).toBe(false);
  });

  it('a lock that is released at once is never renewed [D132]', async () => {
    const { clock, store, held } = await startScripted();
    const { hold } = await held();
    void hold.release();
    (await store.next('release')).reply({ kind: 'released' });
    await clock.advance(600_000);
    expect(await store.unanswered()).toEqual([]);
    expect(clock.timers).toBe(0);
  });

  it('a lock taken again after a loss is renewed with its own token [D116]', async () => {
    const { clock, store, engine, held } = await startScripted();
    const { hold } = await held();
    await clock.advance(10_000);
    (await store.next('renew')).reply({ kind: 'lost' });
    const again = engine.acquire(KEY);
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token, 500));
    const second = await again;
    void hold.release(); // the old work ends only now
    (await store.next('release')).reply({ kind: 'lost' });
    await clock.advance(10_000);
    const renewal = await store.next('renew');
    expect(renewal.command.token).toBe(ask.command.token);
    renewal.reply(renewed);
    await clock.advance(1_000);
    expect(second.isHeld).toBe(true);
  });
});

describe('ending', () => {
  it('the signal of the wait, aborted later, ends neither the work nor the release [D131]', async () => {
    const { store, engine, nothingLeft } = await startScripted();
    const controller = new AbortController();
    const call = engine.withLock(KEY, { signal: controller.signal }, async (lock) => {
      controller.abort(new Error('the client went away'));
      await settled();
      expect(lock.isHeld).toBe(true);
      expect(lock.signal.aborted).toBe(false);
      return 'done';
    });
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    await settled();
    await settled();
    (await store.next('release')).reply({ kind: 'released' });
    expect(await call).toBe('done');
    await nothingLeft();
  });

  it('a lock that expired leaves nothing behind when its work has ended [D133]', async () => {
    const { clock, store, engine, nothingLeft } = await startScripted({ leaseMs: 1_000 });
    const call = engine.withLock(KEY, { renew: false }, async (lock) => {
      await clock.advance(2_000);
      expect(lock.signal.aborted).toBe(true);
    });
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    for (let i = 0; i < 5; i++) await settled();
    (await store.next('release')).reply({ kind: 'lost' });
    await call;
    await nothingLeft();
  });

  it('many different keys leave nothing in the process [D134]', async () => {
    const clock = new FakeClock();
    const engine = inMemoryEngine({}, new InMemoryLocks(clock));
    for (let i = 0; i < 1_000; i++) await engine.withLock(`stock:${i}`, {}, () => {});
    expect(engine.residue).toEqual(NOTHING);
  });

  it('a call inside a lost hold does not join it [R43, D126]', async () => {
    const clock = new FakeClock();
    const locks = new InMemoryLocks(clock);
    const [engine, other] = [inMemoryEngine({}, locks), inMemoryEngine({}, locks)];
    await engine.withLock('k', {}, async (outer) => {
      await other.forceRelease('k');
      await settled();
      expect(outer.isHeld).toBe(false);
      const inner = engine.withLock('k', {}, (lock) => lock.fencingToken);
      await clock.advance(2_000);
      expect(await inner).toBeGreaterThan(outer.fencingToken);
    });
    expect(engine.residue).toEqual(NOTHING);
  });
});
