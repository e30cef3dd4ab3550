import { describe, expect, it } from '@jest/globals';
import {
  LockAbortedError,
  LockNotAcquiredError,
  LockStoreError,
} from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { ANSWER_GRACE_MS } from '../../libs/nestjs-locked/src/core/queue/waiting-call.js';
import { settled } from '../support/fake-clock.js';
import { KEY, startScripted } from '../support/scripted-engine.js';
import { granted, queued, unknown } from '../support/scripted-store.js';

const renewed = { kind: 'renewed', blockEnd: 2_000_000, waiters: 0 } as const;
const undone = { ...unknown, neverRan: true } as const;

describe('the pause after a failure', () => {
  it('is not cut short by a call that comes meanwhile', async () => {
    const { clock, store, engine } = await startScripted();
    const first = engine.acquire(KEY);
    (await store.next('acquire')).reply(undone);
    await settled();
    const second = engine.acquire(KEY);
    await clock.advance(99);
    expect(await store.unanswered()).toEqual([]);
    await clock.advance(1);
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    await (await first).release();
    expect((await second).isHeld).toBe(true);
  });

  it('is short again once the store has answered', async () => {
    const { clock, store, engine } = await startScripted();
    const fails = async (pauseMs: number): Promise<void> => {
      (await store.next('acquire')).reply(undone);
      await settled();
      await clock.advance(pauseMs);
    };
    const first = engine.acquire(KEY);
    for (const pauseMs of [100, 200, 400]) await fails(pauseMs);
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    await first;
    engine.acquire(KEY).catch(() => {});
    await settled();
    store.listener.message({ kind: 'revoked', key: KEY, token: ask.command.token });
    await fails(100);
    expect(await store.unanswered()).toEqual(['acquire']);
  });

  it('leaves no timer behind when nobody waits for its end any more', async () => {
    const { store, engine, nothingLeft } = await startScripted();
    const controller = new AbortController();
    const call = engine.acquire(KEY, { signal: controller.signal });
    (await store.next('acquire')).reply(undone);
    await settled();
    controller.abort();
    await expect(call).rejects.toThrow(LockAbortedError);
    await nothingLeft();
  });
});

describe('a call that waits for a clean-up', () => {
  it('fails with a LockStoreError if the clean-up lasts for its whole wait', async () => {
    const { clock, store, engine } = await startScripted();
    const first = expect(engine.acquire(KEY, { waitMs: 0 })).rejects.toThrow(LockStoreError);
    (await store.next('acquire')).reply(unknown);
    await first;
    (await store.next('leave')).reply(unknown);
    await settled();
    const second = expect(engine.acquire(KEY, { waitMs: 50 })).rejects.toThrow(LockStoreError);
    await clock.advance(50);
    await second;
  });

  it('asks again after each clean-up', async () => {
    const { clock, store, engine } = await startScripted();
    const call = engine.acquire(KEY);
    for (const failures of [1, 2]) {
      (await store.next('acquire')).reply(unknown);
      (await store.next('leave')).reply(unknown);
      await clock.advance(100 * failures);
      (await store.next('leave')).reply({ kind: 'left' });
      await clock.advance(100 * failures);
    }
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    expect((await call).isHeld).toBe(true);
  });
});

describe('who may use a lease', () => {
  it('a call with a fixed lease never gets one that another call began, not even an idle one', async () => {
    const { store, engine, held } = await startScripted({ lingerMs: 5_000 });
    const { hold, token } = await held();
    await hold.release();
    const fixed = engine.acquire(KEY, { renew: false });
    const requeue = await store.next('requeue');
    expect(requeue.command.token).toBe(token);
    requeue.reply(granted(requeue.command.newToken, 200));
    expect((await fixed).fencingToken).toBe(200);
  });

  it('the first hold is not a hand-over: the budget is for those that follow', async () => {
    const { store, engine } = await startScripted({ localHandovers: 1 });
    const [first, second, third] = [1, 2, 3].map(() => engine.acquire(KEY));
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token, 100, 1));
    await (await first)?.release();
    expect((await second)?.fencingToken).toBe(101);
    void (await second)?.release();
    const requeue = await store.next('requeue');
    requeue.reply(granted(requeue.command.newToken, 200));
    expect((await third)?.fencingToken).toBe(200);
  });
});

describe('a lease that is confirmed for the next call', () => {
  it('is released, not kept, if nobody wants it by then', async () => {
    const { store, engine, held, nothingLeft } = await startScripted({ lingerMs: 5_000 });
    const { hold } = await held({ leaseMs: 2_000 });
    const controller = new AbortController();
    const { signal } = controller;
    const next = expect(engine.acquire(KEY, { leaseMs: 60_000, signal })).rejects.toThrow();
    void hold.release();
    const renewal = await store.next('renew');
    controller.abort();
    await next;
    renewal.reply(renewed);
    (await store.next('release')).reply({ kind: 'released' });
    await settled();
    await nothingLeft();
  });

  it('is confirmed again if the answer came too late, even for a fresh lease', async () => {
    const { clock, store, waiting, grant } = await startScripted();
    const { hold, token } = await waiting({ waitMs: 60_000 });
    await clock.advance(4_000);
    grant(token);
    const renewal = await store.next('renew');
    await clock.advance(16_000);
    renewal.reply(renewed);
    (await store.next('renew')).reply(renewed);
    expect((await hold).isHeld).toBe(true);
  });
});

describe('a fixed lease', () => {
  const fixed = { renew: false, leaseMs: 10_000 };

  it('begins without a renewal when the store was slow, and ends when the store ends it', async () => {
    const { clock, store, engine } = await startScripted();
    const call = engine.acquire(KEY, fixed);
    const ask = await store.next('acquire');
    await clock.advance(2_000);
    ask.reply(granted(ask.command.token));
    expect((await call).remainingMs()).toBe(10_000 - 2_000 - 100);
    expect(await store.unanswered()).toEqual([]);
  });

  it('begins after one renewal, however slow that was', async () => {
    const { clock, store, waiting, grant } = await startScripted();
    const { hold, token } = await waiting(fixed);
    await clock.advance(1_000);
    grant(token, 100, 0, 10_000);
    const renewal = await store.next('renew');
    await clock.advance(2_000);
    renewal.reply(renewed);
    expect((await hold).isHeld).toBe(true);
    expect(await store.unanswered()).toEqual([]);
  });

  it('is checked after a suspend until the store answers, and never renewed', async () => {
    const { clock, store, held } = await startScripted();
    const { hold } = await held({ renew: false });
    const leftMs = hold.remainingMs();
    clock.stepWall(2_000);
    expect(hold.isHeld).toBe(true);
    await clock.advance(0);
    for (const answer of [unknown, unknown, renewed]) {
      await clock.advance(1_000);
      (await store.next('renew')).reply(answer);
      await settled();
    }
    expect(hold.remainingMs()).toBeGreaterThan(leftMs - 3_000 - 3);
    expect(hold.remainingMs()).toBeLessThanOrEqual(leftMs - 3_000);
    await clock.advance(12_000);
    expect(await store.unanswered()).toEqual([]);
  });
});

describe('a lease that is handed over to another process', () => {
  const handOver = async () => {
    const scene = await startScripted({ localHandovers: 0 });
    const { store, engine } = scene;
    const first = engine.acquire(KEY);
    const second = engine.acquire(KEY);
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token, 100, 1));
    const released = (await first).release();
    return { ...scene, second, released, requeue: await store.next('requeue') };
  };

  it('leaves no token behind', async () => {
    const { store, second, requeue, nothingLeft } = await handOver();
    requeue.reply(granted(requeue.command.newToken, 200));
    void (await second).release();
    (await store.next('release')).reply({ kind: 'released' });
    await settled();
    await nothingLeft();
  });

  it('is taken back before the request that was sent with it, if neither was answered', async () => {
    const { store, second, released, requeue } = await handOver();
    second.catch(() => {});
    const unsure = expect(released).rejects.toThrow(LockStoreError);
    requeue.reply(unknown);
    await unsure;
    expect(await store.unanswered()).toEqual(['release', 'leave']);
  });
});

describe('a lease that was handed over here', () => {
  it('is renewed for as long as its new holder wants', async () => {
    const { clock, store, engine, held } = await startScripted();
    const { hold } = await held();
    const second = engine.acquire(KEY, { leaseMs: 6_000 });
    await hold.release();
    await second;
    await clock.advance(10_000);
    expect((await store.next('renew')).command.leaseMs).toBe(6_000);
  });
});

describe('a failure of the store', () => {
  it('is the error of calls whose wait ends before the store answers again', async () => {
    const { clock, store, engine, waiting } = await startScripted();
    const { hold } = await waiting({ waitMs: 5_500 });
    const refused = expect(hold).rejects.toThrow(LockStoreError);
    engine.acquire(KEY).catch(() => {});
    await clock.advance(5_001);
    (await store.next('recheck')).reply(undone);
    await clock.advance(499);
    await refused;
  });

  it('is the error of a single try while a lease cannot be confirmed', async () => {
    const { store, engine, held } = await startScripted();
    const { hold } = await held({ leaseMs: 2_000 });
    engine.acquire(KEY, { leaseMs: 60_000 }).catch(() => {});
    void hold.release();
    (await store.next('renew')).reply(unknown);
    await settled();
    await expect(engine.tryAcquire(KEY)).rejects.toThrow(LockStoreError);
  });

  it('is over for all calls as soon as one of them got the key', async () => {
    const { clock, store, engine, held } = await startScripted();
    const { hold } = await held({ leaseMs: 2_000 });
    const second = engine.acquire(KEY, { leaseMs: 60_000 });
    void hold.release();
    (await store.next('renew')).reply(unknown);
    await clock.advance(100);
    (await store.next('renew')).reply(renewed);
    expect((await second).isHeld).toBe(true);
    expect(await engine.tryAcquire(KEY)).toBeNull(); // busy, and not unknown
  });
});

describe('an attempt that was not answered', () => {
  it('is repeated from the same position in the queue', async () => {
    const { clock, store, waiting } = await startScripted();
    await waiting();
    await clock.advance(5_001);
    (await store.next('recheck')).reply(unknown);
    (await store.next('leave')).reply({ kind: 'left' });
    await clock.advance(100);
    expect((await store.next('acquire')).command.position).toBe(7);
  });

  it('is repeated from that position even if it was the confirmation of a grant', async () => {
    const { clock, store, waiting, grant } = await startScripted();
    const { token } = await waiting();
    await clock.advance(2_500);
    grant(token);
    const renewal = await store.next('renew');
    await clock.advance(1_000);
    renewal.reply(unknown);
    (await store.next('release')).reply({ kind: 'released' });
    await clock.advance(100);
    expect((await store.next('acquire')).command.position).toBe(7);
  });

  it('is not repeated if the failure is permanent', async () => {
    const { store, engine, nothingLeft } = await startScripted();
    const call = expect(engine.acquire(KEY)).rejects.toThrow(LockStoreError);
    (await store.next('acquire')).reply({ ...undone, isLasting: true });
    await call;
    await nothingLeft();
  });

  it('is forgotten when the store has answered the next one', async () => {
    const { clock, store, engine } = await startScripted();
    const call = expect(engine.acquire(KEY, { waitMs: 1_000 })).rejects.toThrow(
      LockNotAcquiredError,
    );
    (await store.next('acquire')).reply(undone);
    await clock.advance(100);
    const ask = await store.next('acquire');
    ask.reply(queued(ask.command.token));
    await clock.advance(900);
    (await store.next('leave')).reply({ kind: 'left' });
    await call;
  });
});

describe('the answer to the last try', () => {
  it('still counts if the event loop was blocked when it came', async () => {
    const { clock, store, waiting } = await startScripted();
    const { hold, token } = await waiting({ waitMs: 1_000 });
    await clock.advance(1_000);
    const leave = await store.next('leave');
    clock.block(1_500);
    await clock.advance(0);
    leave.reply(granted(token));
    expect((await hold).isHeld).toBe(true);
  });
});

describe('the answer to a single try at the very end of its time', () => {
  it('still counts, and leaves no failure for those who ask next', async () => {
    const { clock, store, engine } = await startScripted();
    const tried = engine.tryAcquire(KEY);
    const ask = await store.next('acquire');
    await clock.advance(ANSWER_GRACE_MS - 1);
    clock.block(1); // the answer and the timer are due together
    ask.reply(granted(ask.command.token));
    expect((await tried)?.isHeld).toBe(true);
    await settled();
    expect(await engine.tryAcquire(KEY)).toBeNull();
  });
});

describe('a lease that becomes free', () => {
  it('is not kept while another process waits', async () => {
    const { store, engine } = await startScripted({ lingerMs: 5_000 });
    const call = engine.acquire(KEY);
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token, 100, 1));
    void (await call).release();
    expect(await store.unanswered()).toEqual(['release']);
  });

  it('is not kept if it is a fixed one', async () => {
    const { store, held } = await startScripted({ lingerMs: 5_000 });
    const { hold } = await held({ renew: false });
    void hold.release();
    expect(await store.unanswered()).toEqual(['release']);
  });

  it('is not kept if nobody here has had it', async () => {
    const { store, engine } = await startScripted({ lingerMs: 5_000 });
    const controller = new AbortController();
    const call = engine.acquire(KEY, { signal: controller.signal });
    const ask = await store.next('acquire');
    controller.abort();
    await expect(call).rejects.toThrow(LockAbortedError);
    ask.reply(granted(ask.command.token));
    expect(await store.unanswered()).toEqual(['release']);
  });
});

describe('a lease that becomes free while the application closes', () => {
  it('is released at once, whatever lingerMs says', async () => {
    const { store, engine, held, nothingLeft } = await startScripted({ lingerMs: 5_000 });
    const { hold } = await held();
    engine.drain();
    const released = hold.release();
    (await store.next('release')).reply({ kind: 'released' });
    expect(await released).toBe(true);
    await nothingLeft();
  });
});

describe('a lease that is confirmed for a call that has gone', () => {
  const startConfirming = async () => {
    const scripted = await startScripted();
    const { engine, store } = scripted;
    const { hold } = await scripted.held({ leaseMs: 2_000 });
    const abort = new AbortController();
    const next = engine.acquire(KEY, { leaseMs: 60_000, signal: abort.signal });
    void hold.release();
    const renewal = await store.next('renew');
    abort.abort();
    await expect(next).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    return { ...scripted, renewal };
  };

  it('serves a single try that comes meanwhile', async () => {
    const { engine, renewal } = await startConfirming();
    const tried = engine.tryAcquire(KEY);
    await settled();
    renewal.reply(renewed);
    expect((await tried)?.isHeld).toBe(true);
  });

  it('does not block a single try of several keys', async () => {
    const { engine, store, renewal } = await startConfirming();
    const tried = engine.tryAcquire([KEY, 'x']);
    await settled();
    renewal.reply(renewed);
    (await store.next('release')).reply({ kind: 'released' });
    for (let i = 0; i < 2; i++) {
      const ask = await store.next('together');
      ask.reply(granted(ask.command.token));
    }
    expect((await tried)?.isHeld).toBe(true);
  });

  it('leaves a single try of several keys in doubt if it is not confirmed', async () => {
    const { clock, engine } = await startConfirming();
    const tried = engine.tryAcquire([KEY, 'x']);
    const refused = expect(tried).rejects.toThrow(LockStoreError);
    await clock.advance(1_100);
    await refused;
  });
});
