/** Calls with `mode: 'shared'` in one process: who shares a lease with whom, and what ends that. */
import { describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  LockCommitUnknownError,
  LockConfigError,
  LockLostError,
} from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type { Lock } from '../../libs/nestjs-locked/src/core/lock.js';
import type { LockOptions } from '../../libs/nestjs-locked/src/core/lock.options.js';
import { modeOf } from '../../libs/nestjs-locked/src/core/store/lease-token.js';
import { eventually } from '../support/eventually.js';
import { settled } from '../support/fake-clock.js';
import { makeGate } from '../support/gate.js';
import { KEY, startScripted } from '../support/scripted-engine.js';
import { granted, queued, unknown } from '../support/scripted-store.js';

type Scripted = Awaited<ReturnType<typeof startScripted>>;

const SHARED = { mode: 'shared' } as const;

/** A reader that has asked the store. */
async function firstReader({ engine, store }: Scripted, options: LockOptions = {}, waiters = 0) {
  const reading = engine.acquire(KEY, { ...SHARED, ...options });
  const ask = await store.next('acquire');
  ask.reply(granted(ask.command.token, 100, waiters));
  return { lock: await reading, token: ask.command.token };
}

/** A reader that gets the key without a command. */
async function nextReader({ engine, store }: Scripted, options: LockOptions = {}): Promise<Lock> {
  const lock = await engine.acquire(KEY, { ...SHARED, ...options });
  expect(await store.unanswered()).toEqual([]);
  return lock;
}

async function released({ store }: Scripted, token: string): Promise<void> {
  const release = await store.next('release');
  expect(release.command).toMatchObject({ token, used: 0 });
  release.reply({ kind: 'released' });
  await settled();
}

describe('readers of one process', () => {
  it('share one lease and its fencing number, which ends with the last of them', async () => {
    const scripted = await startScripted();
    const { lock: first, token } = await firstReader(scripted);
    expect(modeOf(token)).toBe('shared');
    const second = await nextReader(scripted);
    expect(second.fencingToken).toBe(first.fencingToken);
    expect(await first.release()).toBe(true);
    expect(second.isHeld).toBe(true);
    const third = await nextReader(scripted);
    await second.release();
    const last = third.release();
    await released(scripted, token);
    expect(await last).toBe(true);
    await scripted.nothingLeft();
  });

  it('that wait for the answer all get it at once', async () => {
    const scripted = await startScripted();
    const { engine, store } = scripted;
    const readers = [1, 2, 3].map(() => engine.acquire(KEY, SHARED));
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    const locks = await Promise.all(readers);
    for (const lock of locks) void lock.release();
    await released(scripted, ask.command.token);
    await scripted.nothingLeft();
  });

  it('do not share it with a call that wants the key alone', async () => {
    const scripted = await startScripted();
    const { engine, store } = scripted;
    const { lock } = await firstReader(scripted);
    const writing = engine.acquire(KEY);
    const ask = await store.next('acquire');
    expect(modeOf(ask.command.token)).toBe('exclusive');
    ask.reply(queued(ask.command.token));
    void lock.release();
    await store.next('release').then((release) => release.reply({ kind: 'released' }));
    scripted.grant(ask.command.token, 200);
    const writer = await writing;
    expect(writer.fencingToken).toBe(200);
    void writer.release();
    await store.next('release').then((release) => release.reply({ kind: 'released' }));
    await scripted.nothingLeft();
  });

  it('keep an unused lease for lingerMs, until anybody wants the key alone', async () => {
    const scripted = await startScripted({ lingerMs: 5_000 });
    const { engine, store, clock } = scripted;
    const { lock, token } = await firstReader(scripted);
    await lock.release();
    await clock.advance(4_000);
    await (await nextReader(scripted)).release();
    void engine.acquire(KEY).catch(() => {});
    await released(scripted, token);
    await store.next('acquire');
  });

  it('give an unused lease up at once when another process wants the key alone', async () => {
    const scripted = await startScripted({ lingerMs: 5_000 });
    const { lock, token } = await firstReader(scripted);
    await lock.release();
    scripted.wanted(token);
    await released(scripted, token);
    await scripted.nothingLeft();
  });

  it('do not keep a lease that another process waits for, or may, or that a reader was lost under', async () => {
    type Doubt = (scripted: Scripted, token: string) => unknown;
    const doubts: Doubt[] = [
      ({ wanted }, token) => wanted(token),
      ({ store }) => store.listener.inboxLost(),
      ({ clock }) => clock.advance(4_000),
    ];
    for (const doubt of doubts) {
      const scripted = await startScripted({ lingerMs: 5_000 });
      const { lock, token } = await firstReader(scripted, { maxHoldMs: 4_000 });
      const last = await nextReader(scripted);
      await doubt(scripted, token);
      for (const sent of await scripted.store.unanswered()) scripted.store.take(sent as 'renew');
      void lock.release();
      void last.release();
      await released(scripted, token);
    }
  });

  it('give an unused lease up when the server may have changed, or this process wants several keys', async () => {
    type Reason = (scripted: Scripted) => unknown;
    const reasons: Reason[] = [
      ({ store }) => store.listener.reconnected(),
      ({ engine }) => void engine.tryAcquire([KEY, 'stock:43']).catch(() => {}),
    ];
    for (const reason of reasons) {
      const scripted = await startScripted({ lingerMs: 5_000 });
      const { lock, token } = await firstReader(scripted);
      await lock.release();
      reason(scripted);
      await released(scripted, token);
    }
  });

  it('renew for as long as the one inside that wants the longest lease', async () => {
    const scripted = await startScripted();
    const { clock, store } = scripted;
    const { lock: long } = await firstReader(scripted, { leaseMs: 60_000 });
    const short = await nextReader(scripted);
    const renewedFor = async (): Promise<number> => {
      await clock.advance(20_000);
      const renewal = await store.next('renew');
      renewal.reply({ kind: 'renewed', blockEnd: 0, waiters: 0 });
      await settled();
      return renewal.command.leaseMs;
    };
    expect(await renewedFor()).toBe(60_000);
    await long.release();
    expect(await renewedFor()).toBe(30_000);
    expect(short.isHeld).toBe(true);
  });

  it('leave nothing that is renewed for nobody if the next one gives up before it has the lease', async () => {
    const scripted = await startScripted({ lingerMs: 20_000 });
    const { engine, store, clock } = scripted;
    const { lock, token } = await firstReader(scripted);
    await lock.release();
    await clock.advance(19_000); // less than half of the lease is left
    const controller = new AbortController();
    const next = engine.acquire(KEY, { ...SHARED, signal: controller.signal });
    const renewal = await store.next('renew');
    controller.abort();
    await expect(next).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    renewal.reply({ kind: 'renewed', blockEnd: 0, waiters: 0 });
    await released(scripted, token);
    await scripted.nothingLeft();
  });

  it('may be tried once, without waiting', async () => {
    const scripted = await startScripted();
    const { engine, store, wanted } = scripted;
    const { lock, token } = await firstReader(scripted);
    const second = await engine.tryAcquire(KEY, SHARED);
    expect(second).not.toBeNull();
    wanted(token);
    const third = engine.tryAcquire(KEY, SHARED);
    const ask = await store.next('acquire');
    expect(ask.command.nowait).toBe(true);
    ask.reply({ kind: 'busy', remainingMs: 30_000 });
    expect(await third).toBeNull();
    await second?.release();
    void lock.release();
    await released(scripted, token);
    await scripted.nothingLeft();
  });

  it('may be thousands: each costs the same, however many are inside', async () => {
    const scripted = await startScripted();
    const { engine } = scripted;
    const cpuMsOf = async (count: number): Promise<number> => {
      const from = process.cpuUsage();
      const locks: Lock[] = [];
      for (let i = 0; i < count; i++) {
        locks.push(await engine.acquire(KEY, { ...SHARED, maxHoldMs: i % 2 ? 60_000 : Infinity }));
      }
      for (const lock of locks) await lock.release();
      const { user, system } = process.cpuUsage(from);
      return (user + system) / 1_000;
    };
    const { lock, token } = await firstReader(scripted);
    await cpuMsOf(1_000);
    const few = await cpuMsOf(1_000);
    expect(await cpuMsOf(10_000)).toBeLessThan(15 * few + 300);
    void lock.release();
    await released(scripted, token);
    await scripted.nothingLeft();
  });

  it('do not outlive the application, nor wait for it', async () => {
    const scripted = await startScripted();
    const { lock, token } = await firstReader(scripted);
    const second = await nextReader(scripted);
    const signals = [lock.signal, second.signal];
    scripted.wanted(token);
    const waiting = scripted.engine.acquire(KEY, SHARED);
    waiting.catch(() => {});
    (await scripted.store.next('acquire')).reply(queued('x'));
    await settled();
    scripted.engine.drain();
    await expect(waiting).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    const closed = scripted.engine.close(1_000);
    await scripted.clock.advance(1_000);
    await closed;
    for (const { reason } of signals) expect(reason).toMatchObject({ reason: 'shutdown' });
  });
});

describe('when another process wants the key alone', () => {
  it('later readers ask for a lease of their own, and the first one ends with its readers', async () => {
    const scripted = await startScripted();
    const { engine, store, wanted } = scripted;
    const { lock, token } = await firstReader(scripted);
    const second = await nextReader(scripted);
    wanted(token);
    const late = engine.acquire(KEY, SHARED);
    const ask = await store.next('acquire');
    expect(ask.command.token).not.toBe(token);
    ask.reply(queued(ask.command.token));
    await lock.release();
    void second.release();
    await released(scripted, token);
    scripted.grant(ask.command.token, 300);
    const reader = await late;
    expect(reader.fencingToken).toBe(300);
    void reader.release();
    await released(scripted, ask.command.token);
    await scripted.nothingLeft();
  });

  it('the first lease is looked after until its readers have ended', async () => {
    const scripted = await startScripted();
    const { engine, store, wanted, clock } = scripted;
    const { lock, token } = await firstReader(scripted);
    wanted(token);
    const controller = new AbortController();
    const later = engine.acquire(KEY, { ...SHARED, signal: controller.signal });
    later.catch(() => {});
    (await store.next('acquire')).reply(queued('x'));
    await settled();
    controller.abort(); // only the first lease is left
    await store.next('leave');
    store.listener.reconnected();
    await clock.advance(10);
    const renewal = await store.next('renew');
    expect(renewal.command).toMatchObject({ token });
    renewal.reply({ kind: 'renewed', blockEnd: 0, waiters: 0 });
    await settled();
    void lock.release();
    await released(scripted, token);
  });

  it('is noticed by a renewal as well', async () => {
    const scripted = await startScripted();
    const { engine, store, clock } = scripted;
    const { lock, token } = await firstReader(scripted);
    await clock.advance(10_000);
    (await store.next('renew')).reply({ kind: 'renewed', blockEnd: 0, waiters: 1 });
    await settled();
    void engine.acquire(KEY, SHARED).catch(() => {});
    const ask = await store.next('acquire');
    ask.reply(queued(ask.command.token));
    void lock.release();
    await released(scripted, token);
  });

  it('the readers that waited for a lease get it, and later ones do not', async () => {
    const scripted = await startScripted();
    const { engine, store, clock } = scripted;
    const readers = [1, 2].map(() => engine.acquire(KEY, SHARED));
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token, 100, 1));
    const locks = await Promise.all(readers);
    await clock.advance(1);
    void engine.acquire(KEY, SHARED).catch(() => {});
    (await store.next('acquire')).reply(queued('x'));
    for (const lock of locks) void lock.release();
    await released(scripted, ask.command.token);
  });

  it('the readers that waited all get it, although a lease that was handed over is short', async () => {
    const { engine, store, grant, waiting } = await startScripted();
    const { hold: first, token } = await waiting({ ...SHARED, leaseMs: 30_000 });
    const others = [1, 2].map(() => engine.acquire(KEY, SHARED));
    await settled();
    grant(token, 100, 1, 3_000);
    for (const lock of await Promise.all([first, ...others])) expect(lock.isHeld).toBe(true);
    void engine.acquire(KEY, SHARED).catch(() => {});
    expect(await store.unanswered()).toEqual(['acquire']);
  });

  it('the last of those that waited may give up: later ones do not get the lease', async () => {
    const { engine, store } = await startScripted();
    const controller = new AbortController();
    const { signal } = controller;
    const readers = Array.from({ length: 20_000 }, () =>
      engine.acquire(KEY, { ...SHARED, signal }),
    );
    for (const reading of readers) reading.catch(() => {});
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token, 100, 1));
    await readers[0];
    controller.abort(); // in the pause that so many need
    const outcomes = await Promise.allSettled(readers);
    expect(outcomes.filter(({ status }) => status === 'rejected')).not.toEqual([]);
    await sleep(1);
    void engine.acquire(KEY, SHARED).catch(() => {});
    expect(await store.unanswered()).toEqual(['acquire']);
  });

  it('a nested reader joins all the same, because that process waits for the outer one', async () => {
    const scripted = await startScripted();
    const { engine, store, wanted } = scripted;
    const work = engine.withLock(KEY, SHARED, async () => {
      wanted((engine.current() as Lock & { token?: string }).token ?? token);
      return engine.withLock(KEY, SHARED, async () => 'read');
    });
    const ask = await store.next('acquire');
    const { token } = ask.command;
    ask.reply(granted(token));
    await released(scripted, token);
    expect(await work).toBe('read');
    await scripted.nothingLeft();
  });

  it('is assumed while no messages arrive that could say so', async () => {
    const scripted = await startScripted();
    const { engine, store } = scripted;
    await firstReader(scripted);
    store.listener.inboxLost();
    await settled();
    for (const sent of await store.unanswered()) store.take(sent as 'renew');
    void engine.acquire(KEY, SHARED).catch(() => {});
    expect(await store.unanswered()).toEqual(['acquire']);
  });
});

describe('doubt about a lease', () => {
  it('a reader that wants a longer lease than is left gets one of its own', async () => {
    const scripted = await startScripted();
    const { engine, store } = scripted;
    const { lock, token } = await firstReader(scripted);
    const long = engine.acquire(KEY, { ...SHARED, leaseMs: 300_000 });
    const ask = await store.next('acquire');
    expect(ask.command.leaseMs).toBe(300_000);
    ask.reply(granted(ask.command.token, 200));
    const second = await long;
    void lock.release();
    await released(scripted, token);
    expect(await nextReader(scripted, { leaseMs: 30_000 })).toMatchObject({ fencingToken: 200 });
    void second.release();
  });

  it('a lease without renewal is shared with nobody', async () => {
    const scripted = await startScripted();
    const { engine, store } = scripted;
    await firstReader(scripted, { renew: false });
    void engine.acquire(KEY, SHARED).catch(() => {});
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token, 200));
    await settled();
    void engine.acquire(KEY, { ...SHARED, renew: false }).catch(() => {});
    await store.next('acquire');
  });

  it('after a jump of the clock, a reader is let in only by the store', async () => {
    const scripted = await startScripted();
    const { engine, store, clock } = scripted;
    await firstReader(scripted);
    clock.stepWall(600_000);
    void engine.acquire(KEY, SHARED).catch(() => {});
    await clock.advance(0);
    expect((await store.unanswered()).toSorted()).toEqual(['acquire', 'renew']);
  });

  it('when it is lost, every reader learns of it', async () => {
    const scripted = await startScripted();
    const { store, clock, events } = scripted;
    const { lock, token } = await firstReader(scripted, { label: 'one' });
    const second = await nextReader(scripted, { label: 'two' });
    const signals = [lock.signal, second.signal];
    await clock.advance(10_000);
    (await store.next('renew')).reply({ kind: 'lost' });
    await settled();
    for (const { reason } of signals) expect(reason).toMatchObject({ reason: 'deleted' });
    const lost = events.flatMap((event) => (event.type === 'lost' ? [event.label] : []));
    expect(lost).toEqual(['one', 'two']);
    expect(await lock.release()).toBe(false);
    const last = second.release();
    await released(scripted, token);
    expect(await last).toBe(false);
    await scripted.nothingLeft();
  });

  it('a reader whose time is over is lost alone; later ones ask the store', async () => {
    const scripted = await startScripted();
    const { engine, store, clock } = scripted;
    const { lock: hanging, token } = await firstReader(scripted, { maxHoldMs: 4_000 });
    const { signal } = hanging;
    const sound = await nextReader(scripted);
    await clock.advance(4_000);
    expect(signal.reason).toMatchObject({ reason: 'max-hold' });
    expect(sound.isHeld).toBe(true);
    await clock.advance(6_000);
    (await store.next('renew')).reply({ kind: 'renewed', blockEnd: 0, waiters: 0 });
    void engine.acquire(KEY, SHARED).catch(() => {});
    (await store.next('acquire')).reply(queued('x'));
    await sound.release();
    await clock.advance(30_000 - 1_000);
    const sent = await store.unanswered();
    expect(sent).not.toContain('renew'); // it is left to expire
    for (const kind of sent) store.take(kind as 'recheck');
    const last = hanging.release();
    await released(scripted, token);
    expect(await last).toBe(false);
  });

  it('a reader that asks again when it learns that its time is over is let in only by the store', async () => {
    const scripted = await startScripted();
    const { engine, store, clock } = scripted;
    const { lock } = await firstReader(scripted, { maxHoldMs: 4_000 });
    const again = (): void => void engine.acquire(KEY, SHARED).catch(() => {});
    lock.signal.addEventListener('abort', again);
    await clock.advance(4_000);
    expect(await store.unanswered()).toEqual(['acquire']);
  });

  it('a reader that has left in time is not lost later, and leaves the lease open', async () => {
    const scripted = await startScripted();
    const { clock, events, store } = scripted;
    const { lock } = await firstReader(scripted);
    const left = [await nextReader(scripted, { maxHoldMs: 4_000 })];
    left.push(await nextReader(scripted, { maxHoldMs: 3_000 }));
    for (const reader of left) expect(await reader.release()).toBe(true);
    await clock.advance(5_000);
    expect(events.filter(({ type }) => type === 'lost')).toEqual([]);
    const next = await nextReader(scripted);
    void next.release();
    void lock.release();
    expect(await store.unanswered()).toEqual(['release']);
  });

  it('a reader whose COMMIT may have gone through keeps the lease from being released', async () => {
    const scripted = await startScripted();
    const { store, clock, engine } = scripted;
    const { lock } = await firstReader(scripted);
    const doubtful = await nextReader(scripted);
    const [hold] = (doubtful as unknown as { holds: { commitUnknown(error: Error): void }[] })
      .holds;
    hold?.commitUnknown(new LockCommitUnknownError('who knows', KEY, {}));
    await clock.advance(10_000);
    (await store.next('renew')).reply({ kind: 'renewed', blockEnd: 0, waiters: 0 });
    await doubtful.release();
    expect(lock.isHeld).toBe(true);
    void engine.acquire(KEY, SHARED).catch(() => {});
    await store.next('acquire');
    await lock.release();
    await clock.advance(29_000);
    expect(await store.unanswered()).toEqual([]); // neither renewed nor released
  });

  it('a reader that comes while the only other one awaits the answer to its COMMIT keeps the lease', async () => {
    const scripted = await startScripted();
    const { store, clock } = scripted;
    const { lock: late } = await firstReader(scripted);
    const [hold] = (late as unknown as { holds: { commitIsLate(): void }[] }).holds;
    hold?.commitIsLate();
    await clock.advance(12_000);
    expect(await store.unanswered()).toEqual([]);
    const sound = await nextReader(scripted);
    await clock.advance(100);
    (await store.next('renew')).reply({ kind: 'renewed', blockEnd: 0, waiters: 0 });
    await clock.advance(10_000);
    (await store.next('renew')).reply({ kind: 'renewed', blockEnd: 0, waiters: 0 });
    expect(sound.isHeld).toBe(true);
    await sound.release();
    await clock.advance(29_000);
    expect(await store.unanswered()).toEqual([]);
  });

  it('a renewal that is not answered is repeated, and changes nothing for the readers', async () => {
    const scripted = await startScripted();
    const { store, clock, events } = scripted;
    const { lock } = await firstReader(scripted);
    const second = await nextReader(scripted, { maxHoldMs: 15_000 });
    await clock.advance(10_000);
    (await store.next('renew')).reply(unknown);
    await clock.advance(1_000);
    const left = events.flatMap((it) => (it.type === 'renewal-unknown' ? it.remainingMs : []));
    expect(left).toEqual([expect.closeTo(19_700, -3)]); // not the rest of one that ends sooner
    (await store.next('renew')).reply({ kind: 'renewed', blockEnd: 0, waiters: 0 });
    await settled();
    expect([lock.isHeld, second.isHeld]).toEqual([true, true]);
  });
});

describe('nested calls', () => {
  it('a reader cannot take the key alone: it is told before any command', async () => {
    const scripted = await startScripted();
    const { engine, store } = scripted;
    const inside: unknown[] = [];
    const work = engine.withLock(
      KEY,
      SHARED,
      async () => {
        for (const options of [{}, { waitMs: 0 }, { reentrant: false }]) {
          inside.push(await engine.acquire(KEY, options).catch((error: unknown) => error));
        }
        inside.push(await engine.acquire(['other', KEY]).catch((error: unknown) => error));
      },
      'Report.read',
    );
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    await released(scripted, ask.command.token);
    await work;
    for (const error of inside) {
      expect(error).toBeInstanceOf(LockConfigError);
      expect(error).toMatchObject({ key: KEY, message: expect.stringContaining('Report.read') });
    }
    expect(inside).toHaveLength(4);
    await scripted.nothingLeft();
  });

  /** Three branches that end when all of them are inside, or one after the other. */
  const branchesOf = ({ engine }: Scripted) => {
    let [inside, most] = [0, 0];
    const branch = () =>
      engine.withLock(KEY, SHARED, async () => {
        most = Math.max(most, ++inside);
        await settled();
        inside--;
      });
    return { run: () => Promise.all([branch(), branch(), branch()]), most: () => most };
  };

  it('branches that read run side by side under a reader', async () => {
    const scripted = await startScripted();
    const { engine, store } = scripted;
    const branches = branchesOf(scripted);
    const work = engine.withLock(KEY, SHARED, () => branches.run());
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    await eventually(async () => expect(await store.unanswered()).toEqual(['release']));
    await released(scripted, ask.command.token);
    await work;
    expect(branches.most()).toBe(3);
    await scripted.nothingLeft();
  });

  it('branches that read take turns under a call that has the key alone', async () => {
    const scripted = await startScripted();
    const { engine, store } = scripted;
    const branches = branchesOf(scripted);
    const work = engine.withLock(KEY, {}, () => branches.run());
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    await eventually(async () => expect(await store.unanswered()).toEqual(['release']));
    store.take('release').reply({ kind: 'released' });
    await work;
    expect(branches.most()).toBe(1);
    await scripted.nothingLeft();
  });

  it('a reader that another one has left behind does not end its hold', async () => {
    const scripted = await startScripted();
    const { engine, store } = scripted;
    const gate = makeGate();
    let behind: Promise<void> | undefined;
    const work = engine.withLock(KEY, SHARED, async () => {
      behind = engine.withLock(KEY, SHARED, () => gate.opened);
      await settled();
    });
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    await settled();
    await settled();
    expect(await store.unanswered()).toEqual([]);
    gate.open();
    await behind;
    await released(scripted, ask.command.token);
    await work;
    await scripted.nothingLeft();
  });
});

it('a reader that waits behind a waiter that has stopped tells the store so', async () => {
  const scripted = await startScripted();
  const { engine, store, clock } = scripted;
  void engine.acquire(KEY, { ...SHARED, waitMs: 60_000 }).catch(() => {});
  const ask = await store.next('acquire');
  ask.reply({ ...queued(ask.command.token), head: 'writer' });
  const silents: unknown[] = [];
  for (let i = 0; i < 5; i++) {
    await clock.advance(5_010);
    const recheck = await store.next('recheck');
    silents.push(recheck.command.silent);
    recheck.reply({ ...queued(recheck.command.newToken), head: i < 3 ? 'writer' : 'other' });
    await settled();
  }
  expect(silents).toEqual([undefined, undefined, 'writer', 'writer', undefined]);
});

it('several keys are read one after the other, and all of them are given back if one is taken', async () => {
  const scripted = await startScripted();
  const { engine, store } = scripted;
  const reading = engine.tryAcquire(['a', 'b'], SHARED);
  const a = await store.next('acquire');
  expect(a.command).toMatchObject({ key: 'a', nowait: true });
  a.reply(granted(a.command.token));
  const b = await store.next('acquire');
  expect(b.command).toMatchObject({ key: 'b', nowait: true });
  b.reply({ kind: 'busy', remainingMs: 30_000 });
  const release = await store.next('release');
  expect(release.command.token).toBe(a.command.token);
  release.reply({ kind: 'released' });
  expect(await reading).toBeNull();
  await scripted.nothingLeft();
});

describe('a function that says how each key is wanted', () => {
  const mode = (key: string) => (key === 'a' ? 'shared' : 'exclusive');

  it('reads one and takes the other alone', async () => {
    const { engine, store, nothingLeft } = await startScripted();
    const locking = engine.acquire(['b', 'a'], { mode });
    for (const key of ['a', 'b']) {
      const ask = await store.next('acquire');
      expect(ask.command.key).toBe(key);
      expect(modeOf(ask.command.token)).toBe(mode(key));
      ask.reply(granted(ask.command.token));
    }
    const lock = await locking;
    void lock.release();
    for (let i = 0; i < 2; i++) (await store.next('release')).reply({ kind: 'released' });
    await nothingLeft();
  });

  it('must give a mode', async () => {
    const { engine, nothingLeft } = await startScripted();
    await expect(engine.acquire(['b', 'a'], { mode: (() => 'read') as never })).rejects.toThrow(
      "Cannot lock 'a': the function in mode gave 'read' for it; return 'exclusive' or 'shared'",
    );
    await nothingLeft();
  });
});

it.each(['shared', () => 'shared'] as const)(
  'with mode %s, nothing keeps the key',
  async (mode) => {
    const { engine } = await startScripted();
    await expect(engine.acquire(KEY, { mode, holdAtLeastMs: 5 })).rejects.toThrow('holdAtLeastMs');
  },
);

it('a lost reader is told why in its error', async () => {
  const scripted = await startScripted();
  const { store, clock } = scripted;
  const { lock } = await firstReader(scripted);
  await clock.advance(10_000);
  (await store.next('renew')).reply({ kind: 'lost' });
  await settled();
  expect(() => lock.assertHeld()).toThrow(LockLostError);
});
