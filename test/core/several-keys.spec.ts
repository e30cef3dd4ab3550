import { describe, expect, it } from '@jest/globals';
import {
  LockAbortedError,
  LockLostError,
  LockNotAcquiredError,
  LockStoreError,
} from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type { LockOptions } from '../../libs/nestjs-locked/src/core/lock.options.js';
import { settled } from '../support/fake-clock.js';
import { KEY, startScripted } from '../support/scripted-engine.js';
import { granted, queued, unknown } from '../support/scripted-store.js';

const busy = { kind: 'busy', remainingMs: 30_000 } as const;
const renewed = { kind: 'renewed', blockEnd: 2_000_000, waiters: 0 } as const;
const undone = { ...unknown, neverRan: true } as const;

/** An engine whose caller has asked for `a` and `b`, one of which is taken, as the server says. */
async function waitingForBoth(options: LockOptions = {}) {
  const scripted = await startScripted();
  const { store, engine } = scripted;
  const call = engine.acquire(['a', 'b'], options);
  call.catch(() => {});
  (await store.next('together')).reply(busy);
  (await store.next('together')).reply(busy);
  const a = await store.next('acquire');
  expect(a.command).toMatchObject({ key: 'a' });
  a.reply(granted(a.command.token, 100));
  const b = await store.next('acquire');
  expect(b.command).toMatchObject({ key: 'b' });
  b.reply(queued(b.command.token));
  await settled();
  const grantB = () =>
    store.listener.message({
      kind: 'grant',
      key: 'b',
      token: b.command.token,
      fence: 500,
      blockEnd: 1_000_500,
      waiters: 0,
      acceptMs: 3_000,
    });
  const revokeA = () =>
    store.listener.message({ kind: 'revoked', key: 'a', token: a.command.token });
  return { ...scripted, call, a: a.command.token, revokeA, grantB };
}

describe('several keys, while the command for all of them is in flight', () => {
  it('an abort ends the call at once, and what is granted later is released [D1]', async () => {
    const { store, engine, nothingLeft } = await startScripted();
    const controller = new AbortController();
    const call = engine.acquire(['a', 'b'], { signal: controller.signal });
    const [a, b] = [await store.next('together'), await store.next('together')];
    controller.abort();
    await expect(call).rejects.toThrow(LockAbortedError);
    a.reply(granted(a.command.token));
    b.reply(granted(b.command.token));
    for (const { command } of [a, b]) {
      const release = await store.next('release');
      expect(release.command).toMatchObject({ token: command.token, keepMs: 0 });
      release.reply({ kind: 'released' });
    }
    await nothingLeft();
  });

  it('a closing application ends the call [D1]', async () => {
    const { store, engine } = await startScripted();
    const call = engine.acquire(['a', 'b']);
    await store.next('together');
    engine.drain();
    await expect(call).rejects.toThrow(LockAbortedError);
  });

  it('a store that says nothing for a second ends a single try [D1]', async () => {
    const { clock, store, engine } = await startScripted();
    const call = engine.acquire(['a', 'b'], { waitMs: 0 });
    const refused = expect(call).rejects.toThrow(LockStoreError);
    await store.next('together');
    await clock.advance(1_000);
    await refused;
  });
});

describe('a single try of several keys, while the store is silent', () => {
  it('does not report them as taken because an earlier try was not answered [D55]', async () => {
    const { clock, store, engine } = await startScripted();
    const first = expect(engine.tryAcquire(['a', 'b'])).rejects.toThrow(LockStoreError);
    await clock.advance(1_000);
    await first;
    const second = engine.withLock(['a', 'b'], { waitMs: 0, onBusy: 'skip' }, () => 'done');
    await expect(second).rejects.toThrow(LockStoreError);
    expect(await store.unanswered()).toEqual(['together', 'together']);
  });

  it('does not report them as taken because others wait for its answer [D55]', async () => {
    const { clock, store, engine } = await startScripted();
    void engine.acquire('b').catch(() => {});
    (await store.next('acquire')).reply(unknown);
    await clock.advance(10);
    await expect(engine.tryAcquire(['a', 'b'])).rejects.toThrow(LockStoreError);
  });
});

describe('while an earlier request for a key could not be taken back', () => {
  async function stuck() {
    const started = await startScripted();
    const { clock, store, engine } = started;
    const earlier = expect(engine.tryAcquire('b')).rejects.toThrow(LockStoreError);
    (await store.next('acquire')).reply(unknown);
    await earlier;
    (await store.next('leave')).reply(unknown);
    await clock.advance(1_000);
    return { ...started, repeated: await store.next('leave') };
  }

  it('a single try of several keys fails, and no command is sent for any of them', async () => {
    const { store, engine } = await stuck();
    const tried = expect(engine.tryAcquire(['a', 'b'])).rejects.toThrow(LockStoreError);
    expect(await store.unanswered()).toEqual([]);
    await tried;
  });

  it('a single try and a waiting call come together: the command that follows joins the queue', async () => {
    const { store, engine, repeated } = await stuck();
    void engine.tryAcquire('b').catch(() => {});
    void engine.acquire('b').catch(() => {});
    expect(await store.unanswered()).toEqual([]);
    repeated.reply({ kind: 'left' });
    const { command } = await store.next('acquire');
    expect(command.nowait).toBe(false);
  });
});

describe('a call for several keys, while a command of an aborted call is in flight for one of them', () => {
  async function aborted() {
    const started = await startScripted();
    const { store, engine } = started;
    const controller = new AbortController();
    const gone = expect(engine.acquire('b', { signal: controller.signal })).rejects.toThrow(
      LockAbortedError,
    );
    const left = await store.next('acquire');
    controller.abort();
    await gone;
    return { ...started, left };
  }

  it('waits for its answer, and takes them all', async () => {
    const { store, engine, left } = await aborted();
    const call = engine.tryAcquire(['a', 'b']);
    await settled();
    expect(await store.unanswered()).toEqual([]); // but for that command
    left.reply(granted(left.command.token));
    expect((await store.next('release')).command.token).toBe(left.command.token);
    for (const key of ['a', 'b']) {
      const ask = await store.next('together');
      expect(ask.command.key).toBe(key);
      ask.reply(granted(ask.command.token));
    }
    expect((await call)?.keys).toEqual(['a', 'b']);
  });

  it('waits no longer than for any other answer', async () => {
    const { clock, store, engine } = await aborted();
    const tried = expect(engine.tryAcquire(['a', 'b'])).rejects.toThrow(
      "Cannot lock 'b': Redis has not answered an earlier command for this key yet",
    );
    await clock.advance(1_000);
    await tried;
    expect(await store.unanswered()).toEqual([]);
  });

  it.each(['signal', 'application'])('ends at once with its %s', async (what) => {
    const { store, engine, left } = await aborted();
    const controller = new AbortController();
    const { signal } = controller;
    const ended = expect(engine.acquire(['a', 'b'], { waitMs: 0, signal })).rejects.toThrow(
      LockAbortedError,
    );
    await settled();
    if (what === 'signal') controller.abort();
    else engine.drain();
    await ended;
    left.reply(granted(left.command.token));
    await store.next('release');
  });
});

describe('a single try of several keys', () => {
  it('touches none of them when another process has one [D16]', async () => {
    const { store, engine, nothingLeft } = await startScripted();
    const call = engine.tryAcquire(['a', 'b']);
    (await store.next('together')).reply(busy);
    (await store.next('together')).reply(busy);
    expect(await call).toBeNull();
    await nothingLeft();
  });

  it('names the key that somebody has', async () => {
    const { store, engine } = await startScripted();
    const call = engine.acquire(['a', 'b'], { waitMs: 0 });
    const refused = expect(call).rejects.toMatchObject({ key: 'b' });
    (await store.next('together')).reply({ ...busy, remainingMs: 0, wasFree: true });
    (await store.next('together')).reply(busy);
    await refused;
  });

  it('sends nothing when this process has one of them', async () => {
    const { store, engine, held } = await startScripted();
    await held();
    expect(await engine.tryAcquire(['a', 'stock:42'])).toBeNull();
    expect(await store.unanswered()).toEqual([]);
  });

  it('takes a key whose lease lingers here: that lease is released ahead of the command', async () => {
    const { store, engine, held } = await startScripted({ lingerMs: 20_000 });
    const { hold, token } = await held();
    await hold.release();
    const call = engine.tryAcquire(['a', 'stock:42']);
    const release = await store.next('release');
    expect(release.command.token).toBe(token);
    release.reply({ kind: 'released' });
    for (const name of ['a', 'stock:42']) {
      const ask = await store.next('together');
      expect(ask.command.key).toBe(name);
      ask.reply(granted(ask.command.token));
    }
    expect((await call)?.keys).toEqual(['a', 'stock:42']);
  });

  it('that is refused keeps no key for `holdAtLeastMs` [D9]', async () => {
    const { store, engine } = await startScripted();
    const controller = new AbortController();
    const call = engine.acquire(['a', 'b'], {
      holdAtLeastMs: 60_000,
      signal: controller.signal,
      waitMs: 0,
    });
    const [a, b] = [await store.next('together'), await store.next('together')];
    a.reply(granted(a.command.token));
    b.reply(unknown);
    await expect(call).rejects.toThrow(LockStoreError);
    const sent = [await store.next('leave'), await store.next('release')] as const;
    expect(sent[1].command).toMatchObject({ key: 'a', keepMs: 0 });
  });

  it('waits for the answer to what could not be sent while the event loop was blocked', async () => {
    const { clock, store, engine } = await startScripted();
    const call = engine.acquire(['a', 'b'], { waitMs: 0 });
    clock.block(1_010); // in the same turn: nothing was sent yet
    const both = [await store.next('together'), await store.next('together')];
    await clock.advance(10);
    for (const ask of both) ask.reply(granted(ask.command.token));
    expect((await call).keys).toEqual(['a', 'b']);
  });

  it('waits for that answer even if the call holds one of the keys', async () => {
    const { clock, store, engine } = await startScripted();
    const call = engine.withLock('a', {}, () => {
      const inner = engine.withLock(['a', 'b'], { waitMs: 0 }, (lock) => lock.keys);
      clock.block(1_100); // in the same turn
      return inner;
    });
    const a = await store.next('acquire');
    a.reply(granted(a.command.token));
    const b = await store.next('together');
    await clock.advance(10);
    b.reply(granted(b.command.token));
    for (let i = 0; i < 2; i++) (await store.next('release')).reply({ kind: 'released' });
    expect(await call).toEqual(['a', 'b']);
  });

  it('joins the keys that its call holds, and requests only the others', async () => {
    const { store, engine } = await startScripted();
    const call = engine.withLock('a', {}, () =>
      engine.withLock(['a', 'b', 'c'], { waitMs: 0 }, (lock) => lock.keys),
    );
    const a = await store.next('acquire');
    a.reply(granted(a.command.token));
    for (const name of ['b', 'c']) {
      const ask = await store.next('together');
      expect(ask.command.key).toBe(name);
      ask.reply(granted(ask.command.token));
    }
    for (let i = 0; i < 3; i++) (await store.next('release')).reply({ kind: 'released' });
    expect(await call).toEqual(['a', 'b', 'c']);
  });
});

describe('several keys, waited for', () => {
  it.each([3_000, 1_260, 1_240, 1_205, 1_195, 1_170])(
    'a process that has stood still for %d ms still waits for the answer to its next command',
    async (blockedMs) => {
      const { clock, store, engine } = await startScripted();
      const call = engine.acquire(['a', 'b'], { waitMs: 200 });
      for (let i = 0; i < 2; i++) (await store.next('together')).reply(busy);
      const a = await store.next('acquire');
      clock.block(blockedMs);
      a.reply(granted(a.command.token));
      const b = await store.next('acquire');
      await clock.advance(50);
      b.reply(granted(b.command.token));
      expect((await call).keys).toEqual(['a', 'b']);
    },
  );

  it('a process that has stood still still waits for the renewal of its fixed leases', async () => {
    const { clock, store, engine } = await startScripted();
    const call = engine.acquire(['a', 'b'], { waitMs: 200, renew: false });
    for (let i = 0; i < 2; i++) (await store.next('together')).reply(busy);
    const a = await store.next('acquire');
    a.reply(granted(a.command.token));
    const b = await store.next('acquire');
    clock.block(3_000);
    b.reply(granted(b.command.token));
    const renewals = [await store.next('renew'), await store.next('renew')];
    await clock.advance(10);
    for (const renewal of renewals) renewal.reply(renewed);
    expect((await call).keys).toEqual(['a', 'b']);
  });

  it('an abort is heard while the renewal of fixed leases is not answered', async () => {
    const { store, engine } = await startScripted();
    const controller = new AbortController();
    const call = engine.acquire(['a', 'b'], {
      waitMs: 60_000,
      renew: false,
      signal: controller.signal,
    });
    const refused = expect(call).rejects.toThrow(LockAbortedError);
    for (let i = 0; i < 2; i++) (await store.next('together')).reply(busy);
    for (let i = 0; i < 2; i++) {
      const ask = await store.next('acquire');
      ask.reply(granted(ask.command.token));
    }
    await store.next('renew');
    controller.abort();
    await refused;
  });

  it('a process that has stood still waits so only once', async () => {
    const { clock, store, engine } = await startScripted();
    const refused = expect(engine.acquire(['a', 'b'], { waitMs: 200 })).rejects.toMatchObject({
      key: 'b',
      message: expect.stringContaining('Redis has not answered yet'),
    });
    for (let i = 0; i < 2; i++) (await store.next('together')).reply(busy);
    const a = await store.next('acquire');
    clock.block(3_000);
    a.reply(granted(a.command.token));
    await store.next('acquire');
    await clock.advance(1_100);
    await refused;
  });

  it('are requested again, within the wait, when the store refuses or does not answer [D11]', async () => {
    const { clock, store, engine } = await startScripted();
    const call = engine.acquire(['a', 'b'], { waitMs: 10_000 });
    for (let i = 0; i < 2; i++) (await store.next('together')).reply(undone);
    (await store.next('acquire')).reply(undone);
    await clock.advance(100);
    for (const key of ['a', 'b']) {
      const ask = await store.next('acquire');
      expect(ask.command.key).toBe(key);
      ask.reply(granted(ask.command.token));
      await settled();
    }
    expect((await call).isHeld).toBe(true);
  });

  it('a key that was lost meanwhile is acquired again before the work starts [D2]', async () => {
    const { store, call, a, revokeA, grantB, events } = await waitingForBoth();
    revokeA();
    grantB();
    const backB = await store.next('release');
    expect(backB.command.key).toBe('b');
    expect((await store.next('release')).command.token).toBe(a); // in case it is only believed lost
    const again = await store.next('acquire');
    expect(again.command.key).toBe('a');
    expect(again.command.token).not.toBe(a);
    again.reply(granted(again.command.token, 900));
    backB.reply({ kind: 'released' });
    const second = await store.next('acquire');
    expect(second.command.key).toBe('b');
    second.reply(granted(second.command.token, 901));
    const lock = await call;
    expect(lock.isHeld).toBe(true);
    expect(lock.fencingTokenOf('a')).toBe(900);
    expect(events).toEqual([]); // no work ran under what was lost
  });

  it('a key that is lost at the very end of the wait is a LockLostError [D2]', async () => {
    const { clock, store, call, revokeA } = await waitingForBoth({ waitMs: 2_000 });
    await clock.advance(2_000);
    const lastTry = await store.next('leave');
    revokeA();
    lastTry.reply(granted(lastTry.command.tokens[0]));
    await expect(call).rejects.toThrow(LockLostError);
    expect((await store.next('release')).command).toMatchObject({ key: 'b' });
  });

  it('`maxHoldMs` counts from the start of the work [D2]', async () => {
    const { clock, store, call, grantB } = await waitingForBoth({ maxHoldMs: 1_000 });
    await clock.advance(1_400);
    grantB();
    const lock = await call;
    expect(lock.isHeld).toBe(true);
    await clock.advance(900);
    expect(lock.isHeld).toBe(true);
    for (let left = (await store.unanswered()).length; left > 0; left--) {
      (await store.next('renew')).reply(renewed);
    }
    await clock.advance(100);
    expect(lock.isHeld).toBe(false);
    expect(lock.signal.reason).toMatchObject({ reason: 'max-hold' });
  });

  it('fixed leases are kept during the wait, and have their full length when the work starts', async () => {
    const { clock, store, call, grantB } = await waitingForBoth({ renew: false, leaseMs: 3_000 });
    await clock.advance(1_000);
    (await store.next('renew')).reply(renewed); // `a` is kept alive
    await clock.advance(500);
    grantB();
    const confirmed = await store.next('renew'); // the grant by message is shorter than what was asked for
    expect(confirmed.command).toMatchObject({ key: 'b', leaseMs: 3_000 });
    confirmed.reply(renewed);
    for (const key of ['a', 'b']) {
      const whole = await store.next('renew');
      expect(whole.command).toMatchObject({ key, leaseMs: 3_000 });
      whole.reply(renewed);
    }
    const lock = await call;
    expect(lock.remainingMs()).toBe(3_000 - 30);
    await clock.advance(2_969);
    expect(lock.isHeld).toBe(true);
    expect(await store.unanswered()).toEqual([]);
    await clock.advance(1);
    expect(lock.isHeld).toBe(false);
  });

  it('an error does not wait for the clean-up [D11]', async () => {
    const { clock, store, call } = await waitingForBoth({ waitMs: 2_000 });
    await clock.advance(2_000);
    (await store.next('leave')).reply({ kind: 'left' });
    await expect(call).rejects.toThrow(LockNotAcquiredError);
    expect((await store.next('release')).command).toMatchObject({ key: 'a' }); // not answered
  });

  it('an abort releases what was taken', async () => {
    const controller = new AbortController();
    const { store, call, a } = await waitingForBoth({ signal: controller.signal });
    controller.abort();
    await expect(call).rejects.toThrow(LockAbortedError);
    expect((await store.next('leave')).command).toMatchObject({ key: 'b' });
    expect((await store.next('release')).command).toMatchObject({ token: a });
  });
});

describe('an abort in the tick in which the lock is handed over', () => {
  it('is seen before the work starts [D15]', async () => {
    const { store, engine } = await startScripted();
    const controller = new AbortController();
    let ran = false;
    const call = engine.withLock('k', { signal: controller.signal }, () => (ran = true));
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    void Promise.resolve().then(() => controller.abort());
    await expect(call).rejects.toThrow(LockAbortedError);
    expect(ran).toBe(false);
    expect((await store.next('release')).command.token).toBe(ask.command.token);
  });

  it('is seen by the next key of the same call', async () => {
    const { store, engine } = await startScripted();
    const controller = new AbortController();
    const call = engine.acquire(['a', 'b'], { signal: controller.signal });
    for (let i = 0; i < 2; i++) (await store.next('together')).reply(busy);
    const a = await store.next('acquire');
    controller.abort();
    a.reply(granted(a.command.token));
    await expect(call).rejects.toThrow(LockAbortedError);
    expect((await store.next('release')).command).toMatchObject({ key: 'a' });
    expect(await store.unanswered()).toEqual([]);
  });

  it('is seen by a branch that gets its turn [D15]', async () => {
    const { store, engine } = await startScripted();
    const controller = new AbortController();
    let ran = 0;
    const call = engine.withLock('k', {}, () =>
      Promise.allSettled([
        engine.withLock('k', {}, () => controller.abort()),
        engine.withLock('k', { signal: controller.signal }, () => (ran += 1)),
      ]),
    );
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    await settled();
    (await store.next('release')).reply({ kind: 'released' });
    expect((await call)[1]).toMatchObject({ reason: { code: 'LOCK_ABORTED' } });
    expect(ran).toBe(0);
  });
});

describe('a signal that aborts at the moment when one of several keys is granted', () => {
  it('leaves nothing behind for the next key', async () => {
    const { store, engine, grant, nothingLeft } = await startScripted();
    const controller = new AbortController();
    const call = engine.acquire([KEY, 'z'], { signal: controller.signal });
    const refused = expect(call).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    for (let i = 0; i < 2; i++) (await store.next('together')).reply(busy);
    const ask = await store.next('acquire');
    expect(ask.command.key).toBe(KEY);
    ask.reply(queued(ask.command.token));
    await settled();
    grant(ask.command.token, 100, 0, 30_000);
    controller.abort(); // the call has got its first key, and goes on in a moment
    await refused;
    (await store.next('release')).reply({ kind: 'released' });
    await settled();
    await nothingLeft();
  });
});

describe('several keys, when the wait is over', () => {
  it('one that may have been lost in a suspend is refused as unknown, before the work has begun', async () => {
    const { clock, store, call, grantB } = await waitingForBoth({ waitMs: 1_000 });
    const failed = expect(call).rejects.toMatchObject({
      code: 'LOCK_STORE_FAILED',
      message: expect.stringContaining("Cannot tell whether lock 'a' is still held"),
      workBegan: false,
    });
    clock.stepWall(600_000);
    grantB();
    const confirmed = { kind: 'renewed', blockEnd: 1_001_000, waiters: 0 } as const;
    (await store.next('renew')).reply(confirmed); // of 'b'; nothing is heard of 'a'
    await clock.advance(2_500);
    await failed;
  });

  const SLOW_MS = 60;

  it('are not requested one by one if the first answer says that one is taken', async () => {
    const { clock, store, engine, nothingLeft } = await startScripted();
    const call = engine.acquire(['a', 'b', 'c'], { waitMs: 50 });
    call.catch(() => {});
    const asked = [await store.next('together'), store.take('together'), store.take('together')];
    await clock.advance(SLOW_MS);
    for (const [i, ask] of asked.entries()) ask.reply(i === 2 ? busy : { ...busy, wasFree: true });
    await expect(call).rejects.toMatchObject({
      code: 'LOCK_NOT_ACQUIRED',
      key: 'c',
      waitedMs: SLOW_MS,
      message: expect.stringContaining("Lock 'c' was not acquired within 50 ms"),
    });
    await nothingLeft();
  });

  it('are requested with one command if more than one is missing', async () => {
    const { clock, store, engine, nothingLeft } = await startScripted();
    const call = engine.acquire(['a', 'b', 'c'], { waitMs: 100 });
    call.catch(() => {});
    for (let i = 0; i < 3; i++) (await store.next('together')).reply(busy);
    const a = await store.next('acquire');
    await clock.advance(110);
    a.reply(granted(a.command.token));
    const rest = [await store.next('together'), store.take('together')];
    expect(rest.map(({ command }) => command.key)).toEqual(['b', 'c']);
    await clock.advance(SLOW_MS);
    for (const ask of rest) ask.reply(busy);
    await expect(call).rejects.toMatchObject({
      code: 'LOCK_NOT_ACQUIRED',
      waitedMs: 110 + SLOW_MS,
      message: expect.stringContaining('was not acquired within 100 ms'),
    });
    const release = await store.next('release');
    expect(release.command).toMatchObject({ key: 'a' });
    release.reply({ kind: 'released' });
    await nothingLeft();
  });

  it('are held if that command gets all that are missing', async () => {
    const { clock, store, engine } = await startScripted();
    const call = engine.acquire(['a', 'b', 'c'], { waitMs: 100 });
    for (let i = 0; i < 3; i++) (await store.next('together')).reply(busy);
    const a = await store.next('acquire');
    await clock.advance(110);
    a.reply(granted(a.command.token));
    for (let i = 0; i < 2; i++) {
      const ask = await store.next('together');
      ask.reply(granted(ask.command.token));
    }
    expect((await call).isHeld).toBe(true);
  });

  it('report how long the call waited, not how long it waited for one of them', async () => {
    const { clock, call, store } = await waitingForBoth({ waitMs: 1_000 });
    await clock.advance(1_000);
    (await store.next('leave')).reply({ kind: 'left' });
    await expect(call).rejects.toMatchObject({
      waitedMs: 1_000,
      message: expect.stringContaining("Lock 'b' was not acquired within 1000 ms"),
    });
  });
});

describe('a single try beside a call of this process', () => {
  /** A call whose command is in flight. */
  async function beside() {
    const started = await startScripted();
    const waiting = started.engine.acquire('a', { waitMs: 60_000 });
    waiting.catch(() => {});
    const ask = await started.store.next('acquire');
    return { ...started, ask, waiting };
  }

  it.each([['a'], [['a', 'b']]])(
    'does not report %j as taken while that is unknown: the answer decides [D55]',
    async (keys) => {
      const { store, engine, ask } = await beside();
      const result = engine.tryAcquire(keys);
      expect(await store.unanswered()).toEqual([]);
      ask.reply(queued(ask.command.token));
      await expect(result).resolves.toBeNull();
    },
  );

  it.each([['a'], [['a', 'b']]])(
    'says that the store has failed if there is no answer for %j [D55]',
    async (keys) => {
      const { clock, engine } = await beside();
      const refused = expect(engine.tryAcquire(keys)).rejects.toThrow(LockStoreError);
      await clock.advance(1_100);
      await refused;
    },
  );

  it('does not fail with a LockStoreError if more is requested while an answer is awaited', async () => {
    const { store, engine, ask } = await beside();
    const held = engine.acquire('A');
    const askFirst = await store.next('acquire');
    askFirst.reply(granted(askFirst.command.token));
    const hold = await held;
    const result = engine.tryAcquire(['A', 'a']);
    result.catch(() => {});
    await settled();
    const controller = new AbortController();
    const ownLease = { leaseMs: 60_000, renew: false, signal: controller.signal };
    engine.acquire('A', ownLease).catch(() => {});
    void hold.release();
    const requeue = await store.next('requeue');
    controller.abort();
    ask.reply(queued(ask.command.token));
    await settled();
    requeue.reply(queued(requeue.command.newToken));
    await expect(result).resolves.toBeNull();
  });

  it('reports a key as taken that this process asks for again and again: the store has answered', async () => {
    const { clock, store, engine, ask, waiting } = await beside();
    engine.acquire('a', { leaseMs: 60_000, renew: false }).catch(() => {}); // wants a lease of its own
    const result = engine.tryAcquire(['a', 'b']);
    void waiting.then((hold) => hold.release());
    await clock.advance(900);
    clock.block(200); // the answer is in the socket
    ask.reply(granted(ask.command.token));
    await expect(result).resolves.toBeNull();
    await store.next('requeue');
  });

  it('ends as soon as the lease is confirmed for the call that was before it', async () => {
    const { store, engine, waiting, grant } = await startScripted();
    store.mustConfirmMessages = true;
    const { hold, token } = await waiting();
    grant(token);
    const confirmation = await store.next('renew');
    const result = engine.tryAcquire(['stock:42', 'stock:43']);
    confirmation.reply({ kind: 'renewed', blockEnd: 2_000_000, waiters: 0 });
    expect((await hold).isHeld).toBe(true);
    await expect(result).resolves.toBeNull();
  });

  it('waits for the answer, but a call with several keys that may wait stands in the queue at once', async () => {
    const { store, engine, ask, waiting } = await beside();
    engine.acquire(['a', 'b'], { waitMs: 60_000 }).catch(() => {});
    await settled();
    engine.acquire('a', { waitMs: 60_000 }).catch(() => {});
    ask.reply(granted(ask.command.token));
    void (await waiting).release();
    expect((await store.next('acquire')).command).toMatchObject({ key: 'b' });
  });

  it('reports a key as taken that a call of this process holds, whatever is wrong with the store', async () => {
    const { clock, store, engine, ask, waiting } = await beside();
    ask.reply(granted(ask.command.token));
    expect((await waiting).isHeld).toBe(true);
    store.listener.storeLost(new LockStoreError('cut'));
    await clock.advance(100);
    await expect(engine.tryAcquire('a')).resolves.toBeNull();
    await expect(engine.tryAcquire(['a', 'b'])).resolves.toBeNull();
  });

  it('does not report a key as taken that others wait for while the store is away', async () => {
    const { clock, store, engine, ask } = await beside();
    ask.reply(queued(ask.command.token));
    await settled();
    store.listener.storeLost(new LockStoreError('cut'));
    await clock.advance(100);
    await expect(engine.tryAcquire('a')).rejects.toThrow(LockStoreError);
    await expect(engine.tryAcquire(['a', 'b'])).rejects.toThrow(LockStoreError);
  });

  it('does not say that others hold a key if the store is away when the wait ends', async () => {
    const { clock, store, engine, ask } = await beside();
    ask.reply(queued(ask.command.token));
    const second = engine.acquire('a', { waitMs: 500 });
    const refused = expect(second).rejects.toThrow(LockStoreError);
    await clock.advance(300);
    store.listener.storeLost(new LockStoreError('cut'));
    await clock.advance(300);
    await refused;
  });
});
