import { describe, expect, it } from '@jest/globals';
import {
  LockAbortedError,
  LockLostError,
  LockNotAcquiredError,
  LockStoreError,
} from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { settled } from '../support/fake-clock.js';
import { KEY, startScripted as start } from '../support/scripted-engine.js';
import { granted, queued, unknown } from '../support/scripted-store.js';

describe('Lease, asking', () => {
  it('counts the lease from the sending of ACQUIRE, not from its reply [R11]', async () => {
    const { clock, store, engine } = await start();
    const hold = engine.acquire(KEY);
    const ask = await store.next('acquire');
    await clock.advance(900);
    ask.reply(granted(ask.command.token));
    expect((await hold).remainingMs()).toBe(30_000 - 300 - 900);
  });

  it('renews first when less than half of the lease is left on arrival [R29, D109]', async () => {
    const { clock, store, engine } = await start({ leaseMs: 1_000 });
    const hold = engine.acquire(KEY);
    const ask = await store.next('acquire');
    await clock.advance(600);
    ask.reply(granted(ask.command.token));
    const renewal = await store.next('renew');
    renewal.reply({ kind: 'renewed', blockEnd: 2_000_000, waiters: 0 });
    expect((await hold).remainingMs()).toBe(990);
  });

  it('accepts a grant that overtakes the reply, and ignores the reply [R15]', async () => {
    const { store, engine, grant, nothingLeft } = await start();
    const hold = engine.acquire(KEY);
    const ask = await store.next('acquire');
    grant(ask.command.token, 55);
    expect((await hold).fencingToken).toBe(55);
    ask.reply(queued(ask.command.token));
    await settled();
    void (await hold).release();
    (await store.next('release')).reply({ kind: 'released' });
    await nothingLeft();
  });

  it('remembers a `wanted` that overtakes the reply [R15]', async () => {
    const { store, engine, wanted } = await start({ localHandovers: 0 });
    const [first, second] = [engine.acquire(KEY), engine.acquire(KEY)];
    const ask = await store.next('acquire');
    wanted(ask.command.token);
    ask.reply(granted(ask.command.token));
    void (await first).release();
    const requeue = await store.next('requeue');
    requeue.reply(granted(requeue.command.newToken, 200));
    expect((await second).fencingToken).toBe(200);
  });

  it('takes back what an unanswered ACQUIRE may have left, tries again, and says LockStoreError at the end [D108]', async () => {
    const { clock, store, engine, nothingLeft } = await start();
    const hold = engine.acquire(KEY, { waitMs: 150 });
    const outcome = hold.then(
      () => 'held',
      (error: unknown) => error,
    );
    const first = await store.next('acquire');
    first.reply(unknown);
    const leave = await store.next('leave');
    expect(leave.command).toMatchObject({ tokens: [first.command.token], take: false });
    leave.reply({ kind: 'left' });
    await clock.advance(100);
    const second = await store.next('acquire');
    expect(second.command.token).not.toBe(first.command.token);
    await clock.advance(50);
    second.reply(unknown);
    const error = await outcome;
    expect(error).toBeInstanceOf(LockStoreError);
    expect((error as Error).message).toContain(KEY);
    (await store.next('leave')).reply({ kind: 'left' });
    await nothingLeft();
  });

  it('does not wait longer than a second after waitMs for an answer, and releases a late grant [R23, D104]', async () => {
    const { clock, store, engine, nothingLeft } = await start();
    const outcome = engine.acquire(KEY, { waitMs: 200 }).catch((error: unknown) => error);
    const ask = await store.next('acquire');
    await clock.advance(1_199);
    expect(await Promise.race([outcome, Promise.resolve('waiting')])).toBe('waiting');
    await clock.advance(1);
    expect(await outcome).toBeInstanceOf(LockStoreError);
    ask.reply(granted(ask.command.token));
    (await store.next('release')).reply({ kind: 'released' });
    await nothingLeft();
  });

  it('repeats the clean-up until it is answered [R23]', async () => {
    const { clock, store, engine, nothingLeft } = await start();
    const hold = engine.acquire(KEY, { waitMs: 0 });
    const outcome = expect(hold).rejects.toThrow(LockStoreError);
    (await store.next('acquire')).reply(unknown);
    await outcome;
    (await store.next('leave')).reply(unknown);
    await clock.advance(100);
    (await store.next('leave')).reply(unknown);
    await clock.advance(200);
    (await store.next('leave')).reply({ kind: 'left' });
    await nothingLeft();
  });
});

describe('Lease, waiting', () => {
  it('counts a grant from the introduction of its token, never from the message [R1]', async () => {
    const { clock, waiting, grant } = await start();
    const { hold, token } = await waiting();
    await clock.advance(1_000);
    grant(token);
    expect((await hold).remainingMs()).toBe(3_000 - 30 - 1_000);
  });

  it('confirms an old grant before it hands it out [R1, D109]', async () => {
    const { clock, store, waiting, grant } = await start();
    const { hold, token } = await waiting();
    await clock.advance(4_000);
    grant(token);
    const confirm = await store.next('renew');
    expect(confirm.command).toMatchObject({ token, leaseMs: 30_000 });
    confirm.reply({ kind: 'renewed', blockEnd: 9_000_000, waiters: 0 });
    expect((await hold).remainingMs()).toBe(29_700);
  });

  it('queues again at its old position when the confirmation comes too late', async () => {
    const { clock, store, waiting, grant } = await start();
    const { hold, token } = await waiting();
    await clock.advance(4_000);
    grant(token);
    (await store.next('renew')).reply({ kind: 'lost' });
    const again = await store.next('acquire');
    expect(again.command.position).toBe(7);
    expect(again.command.token).not.toBe(token);
    again.reply(granted(again.command.token));
    expect((await hold).isHeld).toBe(true);
  });

  it('sends nothing while it waits for a message, and re-checks after the safety interval with a new token and its old position [R13]', async () => {
    const { clock, store, waiting } = await start();
    const { token } = await waiting({ waitMs: 60_000 });
    await clock.advance(4_999);
    expect(await store.unanswered()).toEqual([]);
    await clock.advance(20);
    const recheck = await store.next('recheck');
    expect(recheck.command).toMatchObject({ token, position: 7 });
    expect(recheck.command.newToken).not.toBe(token);
  });

  it('re-checks when the lease before it ends, and when the head notice says so [R12]', async () => {
    const { clock, store, engine } = await start();
    void engine.acquire(KEY).catch(() => {});
    const ask = await store.next('acquire');
    store.listener.message({ kind: 'head', key: KEY, token: ask.command.token, ms: 300 });
    ask.reply(queued(ask.command.token, 2_000));
    await clock.advance(299);
    expect(await store.unanswered()).toEqual([]);
    await clock.advance(3);
    const recheck = await store.next('recheck');
    recheck.reply(queued(recheck.command.newToken, 1_000));
    await clock.advance(1_002);
    expect(await store.unanswered()).toEqual(['recheck']);
  });

  it('re-checks every 250 ms while the inbox is down, and at once when it is back [R14]', async () => {
    const { clock, store, waiting } = await start();
    await waiting();
    store.isListening = false;
    store.listener.inboxLost();
    await clock.advance(1);
    let recheck = await store.next('recheck');
    recheck.reply(queued(recheck.command.newToken));
    await clock.advance(252);
    recheck = await store.next('recheck');
    recheck.reply(queued(recheck.command.newToken));
    store.isListening = true;
    store.listener.reconnected();
    await clock.advance(26);
    expect(await store.unanswered()).toEqual(['recheck']);
  });

  it('sends no two re-checks within 25 ms, whatever the signals [R46]', async () => {
    const { clock, store, waiting } = await start();
    await waiting();
    let sent = 0;
    for (let i = 0; i < 100; i++) {
      store.listener.reconnected();
      await clock.advance(1);
      for (let left = (await store.unanswered()).length; left > 0; left--) {
        const recheck = await store.next('recheck');
        recheck.reply(queued(recheck.command.newToken));
        sent++;
      }
    }
    expect(sent).toBeGreaterThan(1);
    expect(sent).toBeLessThanOrEqual(5);
  });

  it('backs off from 50 to 500 ms for a holder of another library [R19]', async () => {
    const { clock, store, waiting } = await start({ waitMs: 60_000 });
    const { token } = await waiting();
    const gaps: number[] = [];
    store.listener.reconnected();
    await clock.advance(1);
    for (let i = 0; i < 6; i++) {
      const recheck = await store.next('recheck');
      recheck.reply({ ...queued(recheck.command.newToken, Infinity), foreign: true });
      const from = clock.now();
      while ((await store.unanswered()).length === 0) await clock.advance(1);
      gaps.push(clock.now() - from);
    }
    expect(token).toBeDefined();
    expect(gaps).toEqual([51, 101, 201, 401, 501, 501]);
  });

  it('takes back the re-check that was in flight when the old token was granted', async () => {
    const { clock, store, waiting, grant, nothingLeft } = await start();
    const { hold, token } = await waiting({ leaseMs: 30_000 });
    store.listener.reconnected();
    await clock.advance(1);
    const recheck = await store.next('recheck');
    grant(token);
    const lock = await hold;
    recheck.reply(queued(recheck.command.newToken));
    const leave = await store.next('leave');
    expect(leave.command.tokens).toEqual([recheck.command.newToken]);
    leave.reply({ kind: 'left' });
    void lock.release();
    (await store.next('release')).reply({ kind: 'released' });
    await nothingLeft();
  });

  it('knows the token of a re-check in flight: its grant and its `wanted` are not orphans [R15]', async () => {
    const { clock, store, waiting, grant, wanted } = await start();
    const { hold } = await waiting();
    store.listener.reconnected();
    await clock.advance(1);
    const recheck = await store.next('recheck');
    wanted(recheck.command.newToken);
    grant(recheck.command.newToken, 300);
    expect((await hold).fencingToken).toBe(300);
    expect(await store.unanswered()).toEqual([]);
    recheck.reply(granted(recheck.command.newToken, 400));
    expect(await store.unanswered()).toEqual([]);
    expect((await hold).isHeld).toBe(true);
  });

  it('asks once more at the end of the wait, for both of its tokens, and takes what it gets [R13]', async () => {
    const { clock, store, waiting } = await start();
    const { hold, token } = await waiting({ waitMs: 400 });
    await clock.advance(400);
    const leave = await store.next('leave');
    expect(leave.command).toMatchObject({ tokens: [token], take: true });
    leave.reply(granted(token, 77));
    expect((await hold).fencingToken).toBe(77);
  });

  it('rejects with LockNotAcquiredError when the last try finds it held', async () => {
    const { clock, store, waiting, nothingLeft } = await start();
    const { hold } = await waiting({ waitMs: 400 });
    await clock.advance(400);
    (await store.next('leave')).reply({ kind: 'left' });
    await expect(hold).rejects.toThrow(LockNotAcquiredError);
    await expect(hold).rejects.toMatchObject({
      code: 'LOCK_NOT_ACQUIRED',
      key: KEY,
      waitedMs: 400,
    });
    await nothingLeft();
  });

  it('says unknown, not busy, when the last try is not answered', async () => {
    const { clock, store, waiting } = await start();
    const { hold } = await waiting({ waitMs: 400 });
    await clock.advance(400);
    (await store.next('leave')).reply(unknown);
    await expect(hold).rejects.toThrow(LockStoreError);
  });

  it('hands on a grant that crosses an abort [R20]', async () => {
    const { store, waiting, grant, nothingLeft } = await start();
    const controller = new AbortController();
    const { hold, token } = await waiting({ signal: controller.signal });
    controller.abort(new Error('client went away'));
    await expect(hold).rejects.toThrow(LockAbortedError);
    const leave = await store.next('leave');
    grant(token);
    expect(leave.command).toMatchObject({ tokens: [token], take: false });
    leave.reply({ kind: 'left' });
    await nothingLeft();
  });

  it('releases a lease that nobody here wants any more', async () => {
    const { store, engine, nothingLeft } = await start();
    const controller = new AbortController();
    const hold = engine.acquire(KEY, { signal: controller.signal });
    const ask = await store.next('acquire');
    controller.abort();
    await expect(hold).rejects.toThrow(LockAbortedError);
    ask.reply(granted(ask.command.token));
    (await store.next('release')).reply({ kind: 'released' });
    await nothingLeft();
  });
});

describe('Lease, held', () => {
  it('passes from caller to caller without the store, with rising tokens', async () => {
    const { store, engine } = await start();
    const order: number[] = [];
    const calls = Array.from({ length: 5 }, () =>
      engine.withLock(KEY, {}, async (lock) => {
        await Promise.resolve();
        order.push(lock.fencingToken);
      }),
    );
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token, 10));
    await settled();
    await settled();
    const release = await store.next('release');
    expect(release.command.used).toBe(14);
    release.reply({ kind: 'released' });
    await Promise.all(calls);
    expect(order).toEqual([10, 11, 12, 13, 14]);
  });

  it('hands over to another process after localHandovers, and stands in the queue again with a new token [R17]', async () => {
    const { store, engine, wanted } = await start({ localHandovers: 2 });
    const holds = [1, 2, 3, 4].map(() => engine.acquire(KEY));
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    const first = await holds[0]!;
    wanted(ask.command.token);
    void first.release();
    void (await holds[1]!).release();
    void (await holds[2]!).release();
    const requeue = await store.next('requeue');
    expect(requeue.command).toMatchObject({ token: ask.command.token, used: 102 });
    expect(requeue.command.newToken).not.toBe(ask.command.token);
  });

  it.each([
    ['another process asks', 0],
    ['the grant says that another process waits', 1],
  ])(
    'serves the calls that wait here when %s, but none that comes later [R17]',
    async (_, waiters) => {
      const { clock, store, engine, wanted } = await start({ localHandovers: Infinity });
      const holds = [engine.acquire(KEY), engine.acquire(KEY)];
      const ask = await store.next('acquire');
      ask.reply({ ...granted(ask.command.token), waiters });
      await settled();
      if (waiters === 0) wanted(ask.command.token);
      await clock.advance(1);
      void engine.acquire(KEY);
      await clock.advance(59);
      void (await holds[0]!).release();
      await settled();
      expect(await store.unanswered()).toEqual([]);
      void (await holds[1]!).release();
      expect(await store.unanswered()).toEqual(['requeue']);
    },
  );

  it('serves no later calls in place of those that were waiting and have given up', async () => {
    const { clock, store, engine, wanted } = await start({ localHandovers: Infinity });
    const controller = new AbortController();
    const first = engine.acquire(KEY);
    const gone = [1, 2, 3].map(() => engine.acquire(KEY, { signal: controller.signal }));
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    const hold = await first;
    wanted(ask.command.token);
    controller.abort();
    const outcomes = await Promise.allSettled(gone);
    expect(outcomes.map(({ status }) => status)).toEqual(gone.map(() => 'rejected'));
    await clock.advance(1);
    void engine.acquire(KEY);
    await clock.advance(59);
    void hold.release();
    expect(await store.unanswered()).toEqual(['requeue']);
  });

  it('serves every call of this process for 20 ms, whoever waits [R17]', async () => {
    const { clock, store, engine, wanted } = await start({ localHandovers: Infinity });
    const first = engine.acquire(KEY);
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    const hold = await first;
    wanted(ask.command.token);
    await clock.advance(1);
    const second = engine.acquire(KEY);
    void engine.acquire(KEY);
    await clock.advance(14);
    void hold.release();
    const next = await second;
    await clock.advance(10);
    void next.release();
    expect(await store.unanswered()).toEqual(['requeue']);
  });

  it('hands over to another process after 100 ms, although calls that were waiting here still wait [R17]', async () => {
    const { clock, store, engine, wanted } = await start({ localHandovers: Infinity });
    const holds = [1, 2, 3].map(() => engine.acquire(KEY));
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    await settled();
    wanted(ask.command.token);
    await clock.advance(80);
    void (await holds[0]!).release();
    await settled();
    expect(await store.unanswered()).toEqual([]);
    await clock.advance(30);
    void (await holds[1]!).release();
    expect(await store.unanswered()).toEqual(['requeue']);
  });

  it('renews first when the fencing tokens of the block are used up [R5]', async () => {
    const { store, engine } = await start();
    const [first, second] = [engine.acquire(KEY), engine.acquire(KEY)];
    const ask = await store.next('acquire');
    ask.reply({ ...granted(ask.command.token, 5), blockEnd: 5 });
    void (await first).release();
    const renewal = await store.next('renew');
    renewal.reply({ kind: 'renewed', blockEnd: 99, waiters: 0 });
    expect((await second).fencingToken).toBe(6);
  });

  it('renews after a third of the lease, and counts from the sending of the renewal', async () => {
    const { clock, store, held } = await start();
    const { hold, token } = await held();
    await clock.advance(9_400);
    expect(await store.unanswered()).toEqual([]);
    await clock.advance(600);
    const renewal = await store.next('renew');
    expect(renewal.command).toMatchObject({ token, used: 100 });
    const sentAt = clock.now();
    await clock.advance(500);
    renewal.reply({ kind: 'renewed', blockEnd: 2_000_000, waiters: 0 });
    await settled();
    expect(hold.remainingMs()).toBe(sentAt + 29_700 - clock.now());
  });

  it('tries again while renewals fail, warns once, and aborts at the local deadline [D117]', async () => {
    const { clock, store, held, events } = await start();
    const { hold } = await held();
    const { signal } = hold;
    let renewals = 0;
    for (let passed = 0; passed < 29_699; passed += 50) {
      await clock.advance(passed + 50 > 29_699 ? 29_699 - passed : 50);
      for (let left = (await store.unanswered()).length; left > 0; left--) {
        (await store.next('renew')).reply(unknown);
        renewals++;
      }
    }
    expect(renewals).toBeGreaterThan(50);
    expect(signal.aborted).toBe(false);
    await clock.advance(2);
    expect(signal.aborted).toBe(true);
    expect(signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'expired' });
    expect(() => hold.assertHeld()).toThrow(LockLostError);
    expect(events.map(({ type }) => type)).toEqual(['renewal-unknown', 'lost']);
  });

  it('keeps the lock when renewals recover within the lease [D113]', async () => {
    const { clock, store, held } = await start();
    const { hold } = await held();
    await clock.advance(10_000);
    (await store.next('renew')).reply(unknown);
    await clock.advance(100);
    (await store.next('renew')).reply({ kind: 'renewed', blockEnd: 2_000_000, waiters: 0 });
    await clock.advance(20_000);
    expect(hold.isHeld).toBe(true);
  });

  it('is lost as deleted at once when the store says that it is not ours', async () => {
    const { clock, store, held, events } = await start();
    const { hold } = await held();
    await clock.advance(10_000);
    (await store.next('renew')).reply({ kind: 'lost' });
    await settled();
    expect(hold.signal.reason).toMatchObject({ reason: 'deleted' });
    expect(events).toMatchObject([{ type: 'lost', key: KEY }]);
    const released = hold.release();
    (await store.next('release')).reply({ kind: 'lost' });
    expect(await released).toBe(false);
  });

  it('does not come back to life by a late "renewed" [R11]', async () => {
    const { clock, store, held } = await start({ leaseMs: 1_000 });
    const { hold } = await held();
    await clock.advance(400);
    const renewal = await store.next('renew');
    clock.block(600);
    renewal.reply({ kind: 'renewed', blockEnd: 2_000_000, waiters: 0 });
    await settled();
    expect(hold.isHeld).toBe(false);
    expect(hold.signal.aborted).toBe(true);
  });

  it('after a blocked event loop reports the loss before the next local caller gets the lock', async () => {
    const { clock, store, engine } = await start({ leaseMs: 1_000 });
    const [first, second] = [engine.acquire(KEY), engine.acquire(KEY)];
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    const hold = await first;
    const log: string[] = [];
    hold.signal.addEventListener('abort', () => log.push('lost'));
    void second.then(() => log.push('second'));
    clock.block(1_500);
    expect(hold.isHeld).toBe(false);
    expect(await Promise.race([hold.release(), Promise.resolve('pending')])).toBe('pending');
    expect(log).toEqual(['lost']);
    const again = await store.next('acquire');
    expect(again.command.token).not.toBe(ask.command.token);
    const release = await store.next('release');
    expect(release.command.token).toBe(ask.command.token);
    again.reply(granted(again.command.token, 500));
    await settled();
    expect(log).toEqual(['lost', 'second']);
  });

  it('shows the end of the lease in `signal` even before any timer could fire [D118]', async () => {
    const { clock, held } = await start({ leaseMs: 1_000 });
    const { hold } = await held();
    clock.block(1_000);
    expect(hold.signal.aborted).toBe(true);
  });

  it('release() returns false when it was no longer ours, and returns the same again [D129]', async () => {
    const { store, held, nothingLeft } = await start();
    const { hold } = await held();
    const [first, second] = [hold.release(), hold.release()];
    (await store.next('release')).reply({ kind: 'lost' });
    expect([await first, await second]).toEqual([false, false]);
    expect(hold.isHeld).toBe(false);
    await nothingLeft();
  });

  it('release() rejects when the store does not answer, and is repeated in the background', async () => {
    const { clock, store, held, events, nothingLeft } = await start();
    const { hold } = await held();
    const released = hold.release();
    (await store.next('release')).reply(unknown);
    await expect(released).rejects.toThrow(LockStoreError);
    expect(events).toMatchObject([{ type: 'release-unknown' }]);
    await clock.advance(100);
    (await store.next('release')).reply({ kind: 'released' });
    await nothingLeft();
  });

  it("withLock() gives the work's result or error, whatever becomes of the release [D127]", async () => {
    const { clock, store, engine } = await start();
    const failure = new Error('no stock');
    for (const [work, expected] of [
      [() => Promise.resolve('sold'), { status: 'fulfilled', value: 'sold' }],
      [() => Promise.reject(failure), { status: 'rejected', reason: failure }],
    ] as const) {
      const call = Promise.allSettled([engine.withLock<string>(KEY, {}, work)]);
      const ask = await store.next('acquire');
      ask.reply(granted(ask.command.token));
      (await store.next('release')).reply(unknown);
      expect(await call).toEqual([expected]);
      await clock.advance(100);
      (await store.next('release')).reply({ kind: 'released' });
    }
  });

  it.each([true, false])(
    'withLock() waits for the release if awaitRelease is %s',
    async (waits) => {
      const { store, engine } = await start({ awaitRelease: waits });
      let result: unknown;
      const call = engine.withLock(KEY, {}, () => 'sold').then((given) => (result = given));
      const ask = await store.next('acquire');
      ask.reply(granted(ask.command.token));
      const release = await store.next('release');
      await settled();
      expect(result).toBe(waits ? undefined : 'sold');
      release.reply({ kind: 'released' });
      expect(await call).toBe('sold');
    },
  );

  it('answers a grant or a `wanted` for an unknown token with a release [R25]', async () => {
    const { store, grant, wanted } = await start();
    const stranger = `${store.processId}:99`;
    grant(stranger);
    const first = await store.next('release');
    expect(first.command).toEqual({ key: KEY, token: stranger, used: 0 });
    wanted(stranger);
    await store.next('release');
  });
});

describe('LockEngine, many callers', () => {
  it('fails a single try as busy at once when the process itself has the key', async () => {
    const { store, engine, held } = await start();
    await held();
    await expect(engine.acquire(KEY, { waitMs: 0 })).rejects.toThrow(LockNotAcquiredError);
    expect(await store.unanswered()).toEqual([]);
  });

  it('lets the others keep waiting when the first one gives up [D102]', async () => {
    const { clock, store, engine, waiting, grant } = await start();
    const { hold: first, token } = await waiting({ waitMs: 100 });
    const second = engine.acquire(KEY);
    await clock.advance(100);
    await expect(first).rejects.toThrow(LockNotAcquiredError);
    expect(await store.unanswered()).toEqual([]);
    grant(token);
    expect((await second).isHeld).toBe(true);
  });

  it('renews ten thousand leases together, with one timer [D123]', async () => {
    const { clock, store, engine } = await start();
    for (let i = 0; i < 10_000; i++) {
      void engine.acquire(`k:${i}`);
      const ask = await store.next('acquire');
      ask.reply(granted(ask.command.token));
    }
    await settled();
    expect(clock.timers).toBe(1);
    const batches: number[] = [];
    const { renew } = store;
    store.renew = (commands) => {
      batches.push(commands.length);
      return renew(commands);
    };
    await clock.advance(10_000);
    expect(batches).toEqual([10_000]);
  });

  it('close() refuses waiters, waits for the holders, and takes no new calls', async () => {
    const { store, engine, held, nothingLeft } = await start();
    const { hold } = await held();
    const waiter = engine.acquire(KEY);
    const outcome = expect(waiter).rejects.toThrow(LockAbortedError);
    const closed = engine.close(5_000);
    await outcome;
    await expect(engine.acquire('other')).rejects.toThrow(/shutting down/);
    expect(hold.isHeld).toBe(true);
    void hold.release();
    (await store.next('release')).reply({ kind: 'released' });
    await closed;
    await nothingLeft();
  });

  it('close() waits for all holders, not for the first one only', async () => {
    const { store, engine, held } = await start();
    const { hold } = await held();
    const other = engine.acquire('other');
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    const slow = await other;
    const closed = engine.close(5_000);
    void hold.release();
    (await store.next('release')).reply({ kind: 'released' });
    await settled();
    expect(slow.isHeld).toBe(true);
    void slow.release();
    (await store.next('release')).reply({ kind: 'released' });
    await closed;
  });

  it('close() aborts work that takes too long, and does not release its lease', async () => {
    const { clock, store, engine, held } = await start();
    const { hold } = await held();
    const closed = engine.close(5_000);
    await clock.advance(4_499);
    expect(hold.signal.aborted).toBe(false); // all but a tenth is for the work
    await clock.advance(1);
    expect(hold.signal.reason).toMatchObject({ reason: 'shutdown' });
    await clock.advance(500);
    await closed;
    expect(await store.unanswered()).toEqual([]);
  });

  it('close() keeps no more than the last second from the work, however long it may take', async () => {
    const { clock, engine, held } = await start({ leaseMs: 90_000 });
    const { hold } = await held();
    const closed = engine.close(20_000);
    await clock.advance(18_999);
    expect(hold.signal.aborted).toBe(false);
    await clock.advance(1);
    expect(hold.signal.reason).toMatchObject({ reason: 'shutdown' });
    await clock.advance(1_000);
    await closed;
  });
});
