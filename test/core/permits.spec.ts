/** Calls with `permits` in one process: what they ask the store, and what they may not ask for. */
import { describe, expect, it } from '@jest/globals';
import { LockConfigError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type { Lock } from '../../libs/nestjs-locked/src/core/lock.js';
import type { LockOptions } from '../../libs/nestjs-locked/src/core/lock.options.js';
import { termsOf } from '../../libs/nestjs-locked/src/core/store/lease-token.js';
import { TestLocks } from '../../libs/nestjs-locked/src/testing/index.js';
import { settled } from '../support/fake-clock.js';
import { KEY, startScripted } from '../support/scripted-engine.js';
import { granted, queued } from '../support/scripted-store.js';

type Scripted = Awaited<ReturnType<typeof startScripted>>;

/** A call that asks the store for a permit, and gets it. */
async function admitted({ engine, store }: Scripted, options: LockOptions, slot?: number) {
  const asking = engine.acquire(KEY, options);
  const ask = await store.next('acquire');
  const { token } = ask.command;
  ask.reply(slot === undefined ? granted(token) : { ...granted(token), slot });
  return { lock: await asking, token };
}

/** The store gives a permit to a call that waits for it. */
const grantByMessage = (store: Scripted['store'], token: string): void =>
  store.listener.message({ ...granted(token), kind: 'grant', key: KEY, acceptMs: 5_000 });

/** Gives the permits back, after which nothing is left of them. */
async function allReleased({ store, nothingLeft }: Scripted, ...locks: Lock[]): Promise<void> {
  for (const lock of locks) {
    void lock.release();
    (await store.next('release')).reply({ kind: 'released' });
  }
  await settled();
  await nothingLeft();
}

describe('permits of one process', () => {
  it('are asked for one by one, side by side, and each is given back alone', async () => {
    const scripted = await startScripted();
    const { engine, store } = scripted;
    const asking = [1, 2].map((weight) => engine.acquire(KEY, { permits: 3, weight }));
    const asks = [await store.next('acquire'), await store.next('acquire')];
    expect(asks.map(({ command }) => termsOf(command.token))).toEqual([
      { mode: 'permit', permits: 3, weight: 1 },
      { mode: 'permit', permits: 3, weight: 2 },
    ]);
    asks.forEach((ask, slot) => ask.reply({ ...granted(ask.command.token), slot }));
    const locks = await Promise.all(asking);
    expect(locks.map(({ slot }) => slot)).toEqual([0, 1]);
    for (const [i, lock] of locks.entries()) {
      const ending = lock.release();
      const release = await store.next('release');
      expect(release.command).toMatchObject({ token: asks[i]?.command.token, used: 0 });
      release.reply({ kind: 'released' });
      expect(await ending).toBe(true);
    }
    await scripted.nothingLeft();
  });

  it('that are not to be had yet are asked for once: the calls that come later line up', async () => {
    const scripted = await startScripted();
    const { engine, store } = scripted;
    const first = engine.acquire(KEY, { permits: 2 });
    const ask = await store.next('acquire');
    ask.reply(queued(ask.command.token));
    await settled();
    const later = [1, 2, 3].map(() => engine.acquire(KEY, { permits: 2 }));
    const second = await store.next('acquire');
    second.reply(queued(second.command.token));
    await settled();
    expect(await store.unanswered()).toEqual([]);
    grantByMessage(store, ask.command.token);
    grantByMessage(store, second.command.token);
    await Promise.all([first, later[0]]);
    const third = await store.next('acquire');
    third.reply(granted(third.command.token));
    const last = await store.next('acquire');
    last.reply(granted(last.command.token));
    await allReleased(scripted, ...(await Promise.all([first, ...later])));
  });

  it('are not asked for again when they are given back and others wait here', async () => {
    const scripted = await startScripted();
    const { lock, token } = await admitted(scripted, { permits: 1 });
    const { engine, store } = scripted;
    const waiting = engine.acquire(KEY, { permits: 1 });
    const ask = await store.next('acquire');
    ask.reply(queued(ask.command.token));
    const ending = lock.release();
    const release = await store.next('release');
    expect(release.command).toMatchObject({ token });
    release.reply({ kind: 'released' });
    expect(await ending).toBe(true);
    expect(await store.unanswered()).toEqual([]);
    grantByMessage(store, ask.command.token);
    await allReleased(scripted, await waiting);
  });

  it('count together for maxWaiters', async () => {
    const scripted = await startScripted();
    const { engine, store } = scripted;
    for (let i = 0; i < 2; i++) {
      void engine.acquire(KEY, { permits: 5 }).catch(() => {});
      const ask = await store.next('acquire');
      ask.reply(queued(ask.command.token));
      await settled();
    }
    await expect(engine.acquire(KEY, { permits: 5, maxWaiters: 2 })).rejects.toThrow(
      '2 calls of this process wait for it already, and maxWaiters is 2',
    );
  });

  it('have no fencing token, which would tell no order', async () => {
    const scripted = await startScripted();
    const { lock } = await admitted(scripted, { permits: 2 }, 1);
    expect(() => lock.fencingToken).toThrow(LockConfigError);
    expect(() => lock.fencingTokenOf(KEY)).toThrow('use lock.slot to tell them apart');
    expect([lock.slot, lock.slotOf(KEY)]).toEqual([1, 1]);
    expect(() => lock.slotOf('other')).toThrow("Cannot tell the slot of 'other'");
  });
});

describe('a call inside one with permits', () => {
  const nested = async (outer: LockOptions, inner: LockOptions): Promise<unknown> => {
    const locks = new TestLocks({ waitMs: 50 }).service();
    return locks.withLock(KEY, outer, () =>
      locks.withLock(KEY, inner, (lock) => lock.slot).catch((error: unknown) => error),
    );
  };

  it.each([
    ['the same', { permits: 2 }, { permits: 2 }],
    ['a lighter one', { permits: 5, weight: 3 }, { permits: 5, weight: 2 }],
    ['a permit inside an exclusive call', {}, { permits: 2 }],
  ] satisfies [string, LockOptions, LockOptions][])('joins: %s', async (_, outer, inner) => {
    expect(await nested(outer, inner)).toBe(0);
  });

  it.each([
    ['alone', { permits: 2 }, {}, 'exclusively here'],
    ['alone, with a lock of its own', { permits: 2 }, { reentrant: false }, 'exclusively here'],
    ['to read', { permits: 2 }, { mode: 'shared' }, "with mode: 'shared' here"],
    ['more of them', { permits: 3 }, { permits: 3, weight: 2 }, 'with weight: 2 of its permits'],
    ['one inside a reader', { mode: 'shared' }, { permits: 2 }, "has it with mode: 'shared'"],
  ] satisfies [string, LockOptions, LockOptions, string][])(
    'may not ask for the key %s',
    async (_, outer, inner, text) => {
      const error = await nested(outer, inner);
      expect(error).toBeInstanceOf(LockConfigError);
      expect(String(error)).toContain(text);
    },
  );

  it('gets a permit of its own with reentrant: false', async () => {
    expect(await nested({ permits: 2 }, { permits: 2, reentrant: false })).toBe(1);
  });
});

describe('options', () => {
  const locks = new TestLocks().service();
  it.each([
    [{ permits: 0 }, 'permits: 0 must be a whole number from 1 to 1000'],
    [{ permits: 1_001 }, 'permits: 1001 must be'],
    [{ permits: 2.5 }, 'permits: 2.5 must be'],
    [{ permits: '3' }, "permits: '3' must be"],
    [{ weight: 2 }, 'weight: 2 is for calls with permits'],
    [{ permits: 2, weight: 3 }, 'weight: 3 must be at most permits (2)'],
    [{ permits: 2, weight: 0 }, 'weight: 0 must be'],
    [{ permits: 2, mode: 'shared' }, 'permits: 2 must not be given with mode'],
    [{ permits: 2, holdAtLeastMs: 5 }, 'holdAtLeastMs: 5 must be 0 with mode or permits'],
    [{ permits: () => 0 }, `the function in permits gave 0 for it`],
    [{ permits: () => 2, weight: 3 }, 'weight: 3 must be at most permits (2)'],
  ] as [LockOptions, string][])('%j are refused', async (options, text) => {
    const error: unknown = await locks.acquire(KEY, options).catch((cause: unknown) => cause);
    expect(error).toBeInstanceOf(LockConfigError);
    expect(String(error)).toContain(text);
  });
});

describe('TestLocks', () => {
  it('hold permits as somebody else', async () => {
    const tests = new TestLocks({ waitMs: 0 });
    const locks = tests.service();
    tests.hold(KEY, { permits: 3, weight: 2 });
    const lock = await locks.acquire(KEY, { permits: 3 });
    expect(lock.slot).toBe(1);
    expect(await locks.tryAcquire(KEY, { permits: 3 })).toBeNull();
    expect(() => tests.hold(KEY, { permits: 3 })).toThrow('holds it already');
    expect(() => tests.hold(KEY, { permits: 3, mode: 'shared' })).toThrow('with mode');
    expect(() => tests.hold(KEY, { weight: 2 })).toThrow('add permits');
  });
});
