import { describe, expect, it } from '@jest/globals';
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import type { LockEvent } from '../../libs/nestjs-locked/src/core/lock-events.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import { systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import { inMemoryEngine } from '../../libs/nestjs-locked/src/testing/in-memory-engine.js';
import { InMemoryLocks } from '../../libs/nestjs-locked/src/testing/in-memory-locks.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { settled } from '../support/fake-clock.js';
import { KEY, startScripted } from '../support/scripted-engine.js';
import { granted, queued, ScriptedStore } from '../support/scripted-store.js';

const user = new AsyncLocalStorage<string>();

/** An engine on the real clock whose commands the test answers, and the user in whose context it reported something. */
async function startTimed() {
  const store = new ScriptedStore();
  const reported: [LockEvent['type'], string | undefined][] = [];
  const engine = new LockEngine({
    store,
    clock: systemClock,
    options: resolveServiceOptions({ leaseMs: 500 }),
    report: ({ type }) => reported.push([type, user.getStore()]),
  });
  await engine.open();
  afterTest(() => engine.close(0));
  return { store, engine, reported };
}

describe('listeners of `signal`', () => {
  it('run in the context of their own work when another request notices the loss', async () => {
    const { clock, store, engine } = await startScripted();
    const seen: (string | undefined)[] = [];
    const alice = user.run('alice', () =>
      engine.withLock('a', { renew: false, leaseMs: 1_000 }, async (lock) => {
        lock.signal.addEventListener('abort', () => seen.push(user.getStore()));
        await new Promise<void>((done) => lock.signal.addEventListener('abort', () => done()));
      }),
    );
    const a = await store.next('acquire');
    a.reply(granted(a.command.token));
    await settled();
    clock.block(2_000); // no timer fires: the next call finds that the lease has ended
    const bob = user.run('bob', () => engine.withLock('b', {}, (lock) => lock.signal.aborted));
    const b = await store.next('acquire');
    b.reply(granted(b.command.token));
    await settled();
    expect(seen).toEqual(['alice']);
    for (let i = 0; i < 2; i++) (await store.next('release')).reply({ kind: 'released' });
    await Promise.all([alice, bob]);
  });

  it('join no hold of another request [D3]', async () => {
    const locks = new InMemoryLocks();
    const engine = inMemoryEngine({}, locks);
    afterTest(() => engine.close(0));
    let inside = 0;
    let most = 0;
    const work = async (): Promise<void> => {
      most = Math.max(most, ++inside);
      await sleep(50);
      inside--;
    };
    let second: Promise<void> | undefined;
    const first = engine.withLock('a', { renew: false, leaseMs: 500 }, async (lock) => {
      lock.signal.addEventListener('abort', () => {
        second = engine.withLock('shared', {}, work);
      });
      await sleep(700);
    });
    // Holds `shared` when the other hold ends, and is the last one on whose behalf the timer was set.
    const other = sleep(100).then(() =>
      engine.withLock('shared', {}, async () => {
        most = Math.max(most, ++inside);
        await engine.withLock('x', { waitMs: 20 }, () => sleep(50));
        await sleep(500);
        inside--;
      }),
    );
    await Promise.all([first, other]);
    await second;
    expect(most).toBe(1);
  });
});

describe('code run by timers, replies and messages', () => {
  it('belongs to no request [D3]', async () => {
    const { store, engine, reported } = await startTimed();
    const lock = await user.run('alice', async () => {
      const asked = engine.acquire(KEY, { renew: false });
      const ask = await store.next('acquire');
      user.run('redis', () => ask.reply(granted(ask.command.token)));
      return asked;
    });
    await eventually(() => expect(reported).toEqual([['lost', undefined]]));
    expect(lock.isHeld).toBe(false);
  });

  it('but the promise of a call continues in its own context', async () => {
    const { store, engine } = await startTimed();
    const seen = user.run('alice', async () => {
      await engine.acquire(KEY);
      return user.getStore();
    });
    const ask = await store.next('acquire');
    user.run('bob', () => ask.reply(queued(ask.command.token)));
    await settled();
    user.run('carol', () =>
      store.listener.message({
        kind: 'grant',
        key: KEY,
        token: ask.command.token,
        fence: 1,
        blockEnd: 1_000_000,
        waiters: 0,
        acceptMs: 500,
      }),
    );
    expect(await seen).toBe('alice');
  });

  it('an abort of one request hands over the turn of another outside both contexts', async () => {
    const { store, engine, reported } = await startTimed();
    const controller = new AbortController();
    const first = user.run('alice', () => engine.acquire(KEY, { signal: controller.signal }));
    const second = user.run('bob', () => engine.acquire(KEY, { renew: false }));
    const ask = await store.next('acquire');
    ask.reply(queued(ask.command.token));
    await settled();
    user.run('mallory', () => controller.abort());
    await expect(first).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    store.listener.message({
      kind: 'grant',
      key: KEY,
      token: ask.command.token,
      fence: 1,
      blockEnd: 1_000_000,
      waiters: 0,
      acceptMs: 500,
    });
    (await store.next('renew')).reply({ kind: 'renewed', blockEnd: 2_000_000, waiters: 0 });
    await second;
    await eventually(() => expect(reported).toEqual([['lost', undefined]]));
  });
});
