import { describe, expect, it } from '@jest/globals';
import {
  LockNotAcquiredError,
  LockStoreError,
} from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { CleanUp } from '../../libs/nestjs-locked/src/core/store/clean-up.js';
import { Outages } from '../../libs/nestjs-locked/src/core/store/outages.js';
import { Scheduler } from '../../libs/nestjs-locked/src/core/time/scheduler.js';
import { FakeClock, settled } from '../support/fake-clock.js';
import { KEY, startScripted } from '../support/scripted-engine.js';
import { granted, queued, ScriptedStore, unknown } from '../support/scripted-store.js';

const undone = { ...unknown, neverRan: true } as const;

describe('what a failed command may have left', () => {
  it('is taken back once per key, however many calls fail [D12]', async () => {
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

  it('waits for the pause of its key, whatever else must be taken back for that key', async () => {
    const [clock, store] = [new FakeClock(), new ScriptedStore()];
    const scheduler = new Scheduler(clock, { before: () => {}, after: () => {} });
    const outages = new Outages(store, clock, Infinity, () => {});
    const cleanUp = new CleanUp(store, clock, scheduler, outages);
    cleanUp.leave(KEY, ['first'], Infinity, () => {});
    (await store.next('leave')).reply(unknown);
    await settled();
    cleanUp.leave(KEY, ['second'], Infinity, () => {});
    expect(await store.unanswered()).toEqual([]);
    await clock.advance(100);
    expect(await store.unanswered()).toEqual(['leave', 'leave']);
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

  it('a re-check that was not carried out uses up the notice that came meanwhile', async () => {
    const { clock, store, waiting } = await startScripted();
    const { token } = await waiting();
    await clock.advance(5_001);
    const failed = await store.next('recheck');
    store.listener.message({ kind: 'head', key: KEY, token, ms: 100 });
    failed.reply(undone);
    await settled();
    await clock.advance(300);
    const again = await store.next('recheck');
    again.reply(queued(again.command.newToken));
    await clock.advance(4_500);
    expect(await store.unanswered()).toEqual([]);
  });

  it('a re-check that was not carried out leaves the position in the queue as it is', async () => {
    const { clock, store, waiting, grant } = await startScripted();
    const { hold, token } = await waiting();
    await clock.advance(5_001);
    (await store.next('recheck')).reply(undone);
    await settled();
    expect(await store.unanswered()).toEqual([]);
    grant(token, 100, 0, 30_000);
    expect((await hold).isHeld).toBe(true);
  });

  it.each([
    ['is not answered', false],
    ['is refused again and again', true],
  ])(
    'for one key is taken back at once, although what others have left %s [D48]',
    async (_, refused) => {
      const { clock, store, engine } = await startScripted();
      const fail = async (key: string) => {
        const failed = expect(engine.acquire(key, { waitMs: 0 })).rejects.toThrow(LockStoreError);
        (await store.next('acquire')).reply(unknown);
        await failed;
        const leave = await store.next('leave');
        expect(leave.command.key).toBe(key);
        return leave;
      };
      for (let i = 0; i < 40; i++) {
        const leave = await fail(`other:${i}`);
        if (refused) leave.reply(unknown);
      }
      (await fail(KEY)).reply({ kind: 'left' });
      const next = engine.acquire(KEY, { waitMs: 0 });
      const ask = await store.next('acquire');
      ask.reply(granted(ask.command.token));
      expect((await next).isHeld).toBe(true);
      await clock.advance(100);
      const again = Array.from({ length: refused ? 40 : 0 }, () => 'leave');
      expect(await store.unanswered()).toEqual(again); // the others do go on
    },
  );

  it('is sent together when many calls give up at once, and nothing else waits for that [D47]', async () => {
    const { store, engine } = await startScripted();
    const calls = 1_500;
    const controller = new AbortController();
    const sizes: number[] = [];
    const { takeBack } = store;
    store.takeBack = (commands) => {
      sizes.push(commands.length);
      return takeBack(commands);
    };
    for (let i = 0; i < calls; i++) {
      engine.acquire(`k:${i}`, { signal: controller.signal }).catch(() => {});
      const ask = await store.next('acquire');
      ask.reply(queued(ask.command.token));
    }
    await settled();
    controller.abort();
    const other = engine.acquire('other', { waitMs: 0 });
    const same = engine.acquire('k:7', { waitMs: 0 });
    const sent = await store.unanswered();
    expect(sizes).toEqual([calls]);
    expect(sent).toHaveLength(calls + 2);
    // In the order of the calls: the clean-up for k:7 is ahead of the new attempt.
    const order: string[] = [];
    for (const kind of sent) {
      const { command, ...asked } = await store.next(kind as 'acquire' | 'leave');
      if (command.key === 'other' || command.key === 'k:7') order.push(`${kind} ${command.key}`);
      if ('token' in command) asked.reply(granted(command.token));
    }
    expect(order).toEqual(['acquire other', 'leave k:7', 'acquire k:7']);
    expect((await other).isHeld).toBe(true);
    expect((await same).isHeld).toBe(true);
  });

  it('is tried again as soon as its node of the store is back, and not before [D48]', async () => {
    const { clock, store, engine, nothingLeft } = await startScripted();
    const refused = expect(engine.acquire(KEY, { waitMs: 0 })).rejects.toThrow(LockStoreError);
    (await store.next('acquire')).reply(unknown);
    await refused;
    store.listener.storeLost(unknown.cause);
    (await store.next('leave')).reply(unknown);
    await clock.advance(10_000);
    expect(await store.unanswered()).toEqual([]);
    store.listener.storeBack();
    (await store.next('leave')).reply({ kind: 'left' });
    await settled();
    await nothingLeft();
  });

  it('is taken back until the latest end of its lease in the store, not just until its deadline [R23]', async () => {
    const { clock, store, engine, held } = await startScripted({ leaseMs: 3_000 });
    const { hold } = await held();
    await clock.advance(1_000);
    await store.next('renew'); // carried out, perhaps, and not answered
    await clock.advance(2_000);
    expect(hold.signal.aborted).toBe(true);
    const released = hold.release();
    (await store.next('release')).reply(unknown);
    await released;
    const tried: number[] = [];
    for (let ms = 0; ms < 5_000; ms += 50) {
      await clock.advance(50);
      for (const kind of await store.unanswered()) {
        expect(kind).toBe('release');
        (await store.next('release')).reply(unknown);
        tried.push(clock.now());
      }
    }
    // The renewal may have been carried out at the deadline, 2,970 ms after the start, for three seconds.
    const last = Math.max(...tried) - (clock.now() - 8_000);
    expect(last).toBeGreaterThan(4_900);
    expect(last).toBeLessThanOrEqual(5_970);
    expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });

  it('keeps a key for the rest of holdAtLeastMs, and not longer', async () => {
    const { clock, store, engine, held, events } = await startScripted({ leaseMs: 1_000 });
    const { hold } = await held({ holdAtLeastMs: 10_000 });
    const from = clock.now();
    const released = hold.release();
    const first = await store.next('release');
    expect(first.command.keepMs).toBe(10_000);
    first.reply(unknown);
    await expect(released).rejects.toThrow(LockStoreError);
    expect(events).toMatchObject([{ type: 'release-unknown', keepMs: 10_000 }]);
    let last = 0;
    for (let ms = 0; ms < 12_000; ms += 50) {
      await clock.advance(50);
      for (const kind of await store.unanswered()) {
        expect(kind).toBe('release');
        const again = await store.next('release');
        last = clock.now() - from;
        expect(again.command.keepMs).toBe(10_000 - last);
        again.reply(unknown);
      }
    }
    expect(last).toBeGreaterThan(8_900); // tries are a second apart at most
    expect(last).toBeLessThan(10_000);
    expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });

  it('is not reported as free too early if its lease lasts longer than holdAtLeastMs', async () => {
    const { store, held, events } = await startScripted({ leaseMs: 10_000 });
    const { hold } = await held({ holdAtLeastMs: 300 });
    const released = hold.release();
    (await store.next('release')).reply(unknown);
    await expect(released).rejects.toThrow(LockStoreError);
    expect(events).toMatchObject([{ type: 'release-unknown', keepMs: 0 }]);
  });

  it('is named as the reason if the store refuses to take it back', async () => {
    const { clock, store, engine } = await startScripted();
    const refusal = { kind: 'unknown', cause: new LockStoreError('NOPERM for this key') } as const;
    const first = expect(engine.acquire(KEY, { waitMs: 0 })).rejects.toThrow('NOPERM');
    (await store.next('acquire')).reply(refusal);
    await first;
    (await store.next('leave')).reply(refusal);
    await settled();
    const calls = [
      engine.acquire([KEY, 'other'], { waitMs: 0 }),
      engine.acquire(KEY, { waitMs: 50 }),
    ];
    const errors = Promise.all(calls.map((call) => call.catch((error: unknown) => error)));
    await clock.advance(60);
    for (const error of await errors) {
      expect(error).toBeInstanceOf(LockStoreError);
      expect((error as Error).message).toMatch(/^Cannot lock .*NOPERM for this key/);
    }
  });

  it('is tried again at once when the store is back', async () => {
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

  it.each(['a position in the queue', 'a first command', 'the last try', 'a re-check'])(
    'is taken back when the store is back, however long it was away: %s [R23]',
    async (what) => {
      const { clock, store, engine, waiting, nothingLeft } = await startScripted();
      const abort = new AbortController();
      let call: Promise<unknown>;
      if (what === 'a first command') {
        call = engine.acquire(KEY, { waitMs: 0 });
        await settled();
        store.listener.storeLost(unknown.cause);
      } else {
        const { hold } = await waiting({ waitMs: 6_000, signal: abort.signal });
        call = hold;
        if (what === 'the last try') await clock.advance(6_000);
        else if (what === 'a re-check') await clock.advance(5_001);
        store.listener.storeLost(unknown.cause);
        if (what === 'a position in the queue') abort.abort();
      }
      const ended = expect(call).rejects.toBeInstanceOf(Error);
      for (let ms = 0; ms < 200_000; ms += 1_000) {
        for (const kind of await store.unanswered())
          (await store.next(kind as 'leave')).reply(unknown);
        await clock.advance(1_000);
      }
      await ended;
      expect(await store.unanswered()).toEqual([]);
      store.listener.storeBack();
      const left = await store.unanswered();
      expect(new Set(left)).toEqual(new Set(['leave']));
      for (let i = 0; i < left.length; i++) (await store.next('leave')).reply({ kind: 'left' });
      await settled();
      await nothingLeft();
    },
  );

  it.each([
    ['a position in the queue', 'LOCK_ABORTED'],
    ['the last try', 'LOCK_STORE_FAILED'],
  ])(
    'is taken back although that is refused for longer than a lease: %s [R23]',
    async (what, code) => {
      const { clock, store, waiting, nothingLeft } = await startScripted({ leaseMs: 2_000 });
      const abort = new AbortController();
      const { hold, token } = await waiting({ waitMs: 500, signal: abort.signal });
      const ended = expect(hold).rejects.toMatchObject({ code });
      if (what === 'the last try') await clock.advance(500);
      else abort.abort();
      for (let ms = 0; ms < 20_000; ms += 1_000) {
        for (const kind of await store.unanswered()) {
          expect(kind).toBe('leave');
          (await store.next('leave')).reply(unknown);
        }
        await clock.advance(1_000);
      }
      await ended;
      const leave = await store.next('leave');
      expect(leave.command.tokens).toEqual([token]);
      leave.reply({ kind: 'left' });
      await settled();
      await nothingLeft();
    },
  );

  it('is tried again soon after the store is back, although it was refused for long before', async () => {
    const { clock, store, waiting } = await startScripted();
    const abort = new AbortController();
    const { hold } = await waiting({ signal: abort.signal });
    abort.abort();
    await expect(hold).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    for (let ms = 0; ms < 5_000; ms += 100) {
      if ((await store.unanswered()).length > 0) (await store.next('leave')).reply(unknown);
      await clock.advance(100);
    }
    store.listener.reconnected();
    (await store.next('leave')).reply(unknown);
    await settled();
    await clock.advance(100);
    expect(await store.unanswered()).toEqual(['leave']);
  });

  /** A position in the queue that could not be taken back so far. */
  const owing = async () => {
    const started = await startScripted();
    const abort = new AbortController();
    const { hold } = await started.waiting({ signal: abort.signal });
    abort.abort();
    await expect(hold).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    (await started.store.next('leave')).reply(unknown);
    await settled();
    return started;
  };

  const tryOnItsWay = {
    leave: async () => {
      const started = await owing();
      await started.clock.advance(1_000);
      return started;
    },
    release: async () => {
      const started = await startScripted();
      const { hold } = await started.held();
      started.store.listener.storeLost(unknown.cause);
      await started.clock.advance(2_000);
      await expect(hold.release()).rejects.toThrow(LockStoreError); // its answer is not waited for
      return started;
    },
  };

  it('is tried once more when the locks are closed, and then no more', async () => {
    const { clock, store, engine } = await owing();
    const closed = engine.close(10_000).then(() => 'closed');
    const last = await store.next('leave');
    expect(await Promise.race([closed, settled().then(() => 'waits')])).toBe('waits');
    last.reply(unknown);
    await closed;
    await clock.advance(60_000);
    expect(await store.unanswered()).toEqual([]);
    expect(clock.timers).toBe(0);
  });

  it.each(['leave', 'release'] as const)(
    'is tried once more if the locks are closed while a try is in flight: %s',
    async (kind) => {
      const { clock, store, engine } = await tryOnItsWay[kind]();
      const first = await store.next(kind);
      const closed = engine.close(10_000).then(() => 'closed');
      expect(await Promise.race([closed, settled().then(() => 'waits')])).toBe('waits');
      first.reply(unknown);
      const last = await store.next(kind);
      expect(await Promise.race([closed, settled().then(() => 'waits')])).toBe('waits');
      last.reply(unknown);
      await closed;
      await clock.advance(60_000);
      expect(await store.unanswered()).toEqual([]);
      expect(clock.timers).toBe(0);
    },
  );

  it('is not tried on a new connection while the store counts as away', async () => {
    const { clock, store } = await owing();
    store.listener.storeLost(unknown.cause);
    store.listener.reconnected();
    await clock.advance(10_000);
    expect(await store.unanswered()).toEqual([]);
  });

  it('is not tried again after a final answer', async () => {
    const { clock, store, held, nothingLeft } = await startScripted();
    const { hold } = await held();
    const released = expect(hold.release()).rejects.toThrow(LockStoreError);
    (await store.next('release')).reply(unknown);
    await released;
    await clock.advance(1_000);
    (await store.next('release')).reply({ ...unknown, isLasting: true });
    await clock.advance(10_000);
    await nothingLeft();
  });

  it('lets the next call go on although an earlier one that waited for it has gone', async () => {
    const { clock, store, engine } = await startScripted();
    const first = expect(engine.acquire(KEY, { waitMs: 0 })).rejects.toThrow(LockStoreError);
    (await store.next('acquire')).reply(unknown);
    (await store.next('leave')).reply(unknown);
    await first;
    const abort = new AbortController();
    const gone = engine.acquire(KEY, { signal: abort.signal });
    const aborted = expect(gone).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    await settled();
    abort.abort();
    await aborted;
    const next = engine.acquire(KEY);
    await clock.advance(100);
    (await store.next('leave')).reply({ kind: 'left' });
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    expect(await next).toMatchObject({ isHeld: true });
  });

  it('is answered before the next attempt for the same key, which it would block [D13]', async () => {
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

  it('does not grow without limit, and is sent together, when the store was silent for long [D12]', async () => {
    const { clock, store, engine } = await startScripted({ leaseMs: 5_000 });
    let most = 0;
    for (let n = 0; n < 750; n++) {
      engine.acquire(`key:${n}`, { waitMs: 0 }).catch(() => {});
      (await store.next('acquire')).reply(unknown);
      await clock.advance(20);
      for (const kind of await store.unanswered()) {
        expect(kind).toBe('leave');
        (await store.next('leave')).reply(unknown);
      }
      most = Math.max(most, engine.residue.tokens);
    }
    expect(most).toBeLessThanOrEqual(400); // the tries of one lease and some seconds
    await settled();
    const sizes: number[] = [];
    const { takeBack } = store;
    store.takeBack = (commands) => {
      sizes.push(commands.length);
      return takeBack(commands);
    };
    store.listener.reconnected();
    const left = await store.unanswered();
    expect(sizes).toEqual([left.length]);
    expect(left.length).toBeGreaterThan(100);
    for (let i = 0; i < left.length; i++) (await store.next('leave')).reply({ kind: 'left' });
    await settled();
    expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });
});

describe('a grant for a token that was given up', () => {
  /** A call that has given up while the store did not answer. */
  const givenUp = async () => {
    const scripted = await startScripted();
    const controller = new AbortController();
    const { hold, token } = await scripted.waiting({ signal: controller.signal });
    controller.abort();
    await expect(hold).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    return { ...scripted, token, leave: await scripted.store.next('leave') };
  };

  it.each(['grant', 'wanted'] as const)('is returned at once (%s) [D50]', async (kind) => {
    const { clock, store, grant, wanted, token, leave, nothingLeft } = await givenUp();
    leave.reply(unknown);
    await settled();
    expect(await store.unanswered()).toEqual([]); // pausing
    if (kind === 'grant') grant(token);
    else wanted(token);
    const again = await store.next('leave');
    expect(again.command.tokens).toEqual([token]);
    grant(token); // twice, like any message
    expect(await store.unanswered()).toEqual([]);
    again.reply({ kind: 'left' });
    await settled();
    await clock.advance(1_000);
    await nothingLeft();
  });

  it('needs no further command if its clean-up is in flight', async () => {
    const { store, grant, token, leave, nothingLeft } = await givenUp();
    grant(token);
    expect(await store.unanswered()).toEqual([]);
    leave.reply({ kind: 'left' });
    await settled();
    await nothingLeft();
  });

  it('is returned although the re-check that introduced it is not answered', async () => {
    const { clock, store, waiting, grant } = await startScripted();
    const { hold, token } = await waiting();
    await clock.advance(5_001);
    const recheck = await store.next('recheck');
    grant(token, 100, 0, 30_000);
    expect((await hold).isHeld).toBe(true);
    grant(recheck.command.newToken);
    const leave = await store.next('leave');
    expect(leave.command.tokens).toEqual([recheck.command.newToken]);
    expect((await hold).isHeld).toBe(true);
  });
});

describe('a call that comes after one that has given up', () => {
  it('is answered by the command that is still in flight', async () => {
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

  it('and fails as busy if that is the answer', async () => {
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
