import { describe, expect, it } from '@jest/globals';
import {
  LockNotAcquiredError,
  LockStoreError,
} from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { settled } from '../support/fake-clock.js';
import { KEY, startScripted } from '../support/scripted-engine.js';
import { granted, queued, unknown } from '../support/scripted-store.js';

const undone = { ...unknown, neverRan: true } as const;

describe('what a failed command may have left', () => {
  it('is taken back once for a key, however many calls for it fail', async () => {
    const { clock, store, engine } = await startScripted();
    const sent = { acquire: 0, leave: 0 };
    for (let second = 0; second < 60; second++) {
      for (let i = 0; i < 10; i++) engine.acquire(KEY, { waitMs: 2_000 }).catch(() => {});
      await clock.advance(1_000);
      for (let left = await store.unanswered(); left.length > 0; left = await store.unanswered()) {
        const [kind] = left as ['acquire' | 'leave'];
        sent[kind]++;
        (await store.next(kind)).reply(unknown);
        await settled();
      }
    }
    // The first attempt has left a token; nothing else is sent before that was taken back, or has ended by itself.
    expect(sent.acquire).toBeLessThanOrEqual(3);
    expect(sent.leave).toBeLessThanOrEqual(70);
  });

  it('is nothing after a definite refusal', async () => {
    const { clock, store, engine, nothingLeft } = await startScripted();
    const call = engine.acquire(KEY, { waitMs: 1_000 });
    const refused = expect(call).rejects.toThrow(LockStoreError);
    for (let passed = 0; passed < 1_000; passed += 100) {
      for (const kind of await store.unanswered()) {
        expect(kind).toBe('acquire');
        (await store.next('acquire')).reply(undone);
      }
      await clock.advance(100);
    }
    for (let left = await store.unanswered(); left.length > 0; left = await store.unanswered())
      (await store.next('acquire')).reply(undone);
    await clock.advance(2_000);
    await refused;
    await nothingLeft();
  });

  it('a re-check that was not carried out leaves the place in the queue as it is', async () => {
    const { clock, store, waiting, grant } = await startScripted();
    const { hold, token } = await waiting();
    await clock.advance(5_001);
    (await store.next('recheck')).reply(undone);
    await settled();
    expect(await store.unanswered()).toEqual([]);
    grant(token, 100, 0, 30_000);
    expect((await hold).isHeld).toBe(true);
  });

  it('stands in the way of the next attempt before it is sent, too', async () => {
    const { clock, store, engine } = await startScripted();
    for (const key of ['other', KEY]) {
      const failed = expect(engine.acquire(key, { waitMs: 0 })).rejects.toThrow(LockStoreError);
      (await store.next('acquire')).reply(unknown);
      await failed;
      if (key === 'other') (await store.next('leave')).reply(unknown);
    }
    const next = engine.acquire(KEY);
    expect(await store.unanswered()).toEqual([]); // pausing: what KEY owes was not sent yet
    await clock.advance(100);
    for (const key of ['other', KEY]) {
      const leave = await store.next('leave');
      expect(leave.command.key).toBe(key);
      leave.reply({ kind: 'left' });
    }
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    expect((await next).isHeld).toBe(true);
  });

  it('is tried again at once when the store is there again', async () => {
    const { clock, store, engine, nothingLeft } = await startScripted();
    const calls = ['a', 'b', 'c'].map((key) => engine.acquire(key, { waitMs: 0 }));
    const refused = Promise.all(calls.map((call) => expect(call).rejects.toThrow(LockStoreError)));
    for (let i = 0; i < 3; i++) (await store.next('acquire')).reply(unknown);
    for (let i = 0; i < 3; i++) (await store.next('leave')).reply(unknown);
    await refused;
    await clock.advance(10);
    expect(await store.unanswered()).toEqual([]); // pausing
    store.listener.reconnected();
    const left = new Set<string>();
    for (let i = 0; i < 3; i++) {
      const leave = await store.next('leave');
      left.add(leave.command.key);
      leave.reply({ kind: 'left' });
    }
    expect(left).toEqual(new Set(['a', 'b', 'c']));
    await settled();
    await nothingLeft();
  });

  it('is answered before the next attempt for the same key, which would find it in its way', async () => {
    const { clock, store, engine } = await startScripted();
    const first = engine.acquire(KEY, { waitMs: 0 });
    const refused = expect(first).rejects.toThrow(LockStoreError);
    const lost = await store.next('acquire');
    lost.reply(unknown);
    await refused;
    (await store.next('leave')).reply(unknown);
    await settled();
    const second = engine.acquire(KEY, { waitMs: 0 });
    await clock.advance(100);
    const leave = await store.next('leave');
    expect(leave.command.tokens).toEqual([lost.command.token]);
    expect(await store.unanswered()).toEqual([]);
    leave.reply({ kind: 'left' });
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    expect((await second).isHeld).toBe(true);
  });

  it('does not grow without end, and is not sent all at once, when the store was silent for long', async () => {
    const { clock, store, engine } = await startScripted({ leaseMs: 5_000 });
    let most = 0;
    for (let n = 0; n < 3_000; n++) {
      engine.acquire(`key:${n}`, { waitMs: 0 }).catch(() => {});
      (await store.next('acquire')).reply(unknown);
      await clock.advance(10);
      for (const kind of await store.unanswered()) {
        expect(kind).toBe('leave');
        (await store.next('leave')).reply(unknown);
      }
      most = Math.max(most, engine.residue.tokens);
    }
    expect(most).toBeLessThanOrEqual(800); // those of one lease and some seconds
    store.listener.reconnected();
    let atOnce = 0;
    for (let left = await store.unanswered(); left.length > 0; left = await store.unanswered()) {
      atOnce = Math.max(atOnce, left.length);
      for (let i = 0; i < left.length; i++) (await store.next('leave')).reply({ kind: 'left' });
    }
    expect(atOnce).toBeLessThanOrEqual(16);
    expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });
});

describe('a caller who comes after one that has given up', () => {
  it('is answered by the command that is still on its way', async () => {
    const { store, engine } = await startScripted();
    const controller = new AbortController();
    const first = engine.acquire(KEY, { signal: controller.signal });
    const ask = await store.next('acquire');
    controller.abort();
    await expect(first).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    const second = engine.acquire(KEY, { waitMs: 0 });
    ask.reply(granted(ask.command.token));
    expect((await second).isHeld).toBe(true);
  });

  it('and is told that somebody else has the key if that is the answer', async () => {
    const { store, engine } = await startScripted();
    const controller = new AbortController();
    const first = engine.acquire(KEY, { signal: controller.signal });
    const ask = await store.next('acquire');
    controller.abort();
    await expect(first).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    const second = engine.acquire(KEY, { waitMs: 0 });
    ask.reply(queued(ask.command.token));
    await expect(second).rejects.toThrow(LockNotAcquiredError);
    expect((await store.next('leave')).command.tokens).toEqual([ask.command.token]);
  });
});
