import { describe, expect, it } from '@jest/globals';
import type { HeldLock } from '../../libs/nestjs-locked/src/core/calls/held-lock.js';
import {
  LockAbortedError,
  LockCommitUnknownError,
  LockNotAcquiredError,
  LockStoreError,
} from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type {
  LockOptions,
  LockServiceOptions,
} from '../../libs/nestjs-locked/src/core/lock.options.js';
import { ANSWER_GRACE_MS } from '../../libs/nestjs-locked/src/core/queue/waiting-call.js';
import type {
  RenewReply,
  StoreListener,
} from '../../libs/nestjs-locked/src/core/store/lock-store.js';
import { settled } from '../support/fake-clock.js';
import { makeGate } from '../support/gate.js';
import { KEY, startScripted } from '../support/scripted-engine.js';
import { granted, queued, unknown } from '../support/scripted-store.js';

const renewed = (waiters = 0) => ({ kind: 'renewed', blockEnd: 2_000_000, waiters }) as const;

describe('tokens', () => {
  it('are new with each command that could be granted, even after a failure [R2]', async () => {
    const { clock, store, engine } = await startScripted({ localHandovers: 0 });
    const introduced: string[] = [];
    const [first, second] = [engine.acquire(KEY), engine.acquire(KEY)];
    const failed = await store.next('acquire');
    introduced.push(failed.command.token);
    failed.reply(unknown);
    (await store.next('leave')).reply({ kind: 'left' });
    await clock.advance(100);
    const ask = await store.next('acquire');
    introduced.push(ask.command.token);
    ask.reply(queued(ask.command.token, 1_000));
    await clock.advance(1_001);
    const lookedAgain = await store.next('recheck');
    introduced.push(lookedAgain.command.newToken);
    lookedAgain.reply(unknown);
    (await store.next('leave')).reply({ kind: 'left' });
    await clock.advance(200);
    const again = await store.next('acquire');
    introduced.push(again.command.token);
    again.reply(granted(again.command.token, 100, 1));
    void (await first).release();
    const requeue = await store.next('requeue');
    introduced.push(requeue.command.newToken);
    requeue.reply(granted(requeue.command.newToken, 200));
    expect((await second).fencingToken).toBe(200);

    expect(new Set(introduced).size).toBe(5);
    for (const token of introduced) expect(token).toMatch(/^[0-9a-f]{32}:\d+$/);
  });
});

describe('a lease', () => {
  it('whose renewal one call asked for tells the next call that the lock is lost', async () => {
    const { store, engine, held } = await startScripted();
    const { hold } = await held();
    const next = engine.acquire(KEY);
    const ensured = hold.ensureRemaining(60_000);
    const refused = expect(ensured).rejects.toMatchObject({ code: 'LOCK_LOST' });
    const renewal = await store.next('renew');
    void hold.release();
    const second = await next;
    renewal.reply({ kind: 'lost' });
    await refused;
    expect(second.signal.reason).toMatchObject({ reason: 'deleted' });
  });

  it('that was not renewed for `ensureRemaining` is reported, and renewed soon, like any other', async () => {
    const { clock, store, events, held } = await startScripted();
    const { hold } = await held();
    const ensured = expect(hold.ensureRemaining(60_000)).rejects.toMatchObject({
      code: 'LOCK_STORE_FAILED',
      workBegan: true,
    });
    (await store.next('renew')).reply(unknown);
    await ensured;
    expect(events.map(({ type }) => type)).toEqual(['renewal-unknown']);
    await clock.advance(2_000); // long before it would be due
    expect(await store.unanswered()).toEqual(['renew']);
  });

  it('is not renewed after a reconnect while the answer to a COMMIT is late', async () => {
    const { clock, store, engine } = await startScripted();
    const gate = makeGate();
    const call = engine.withLock(KEY, {}, async () => {
      const [hold] = engine.inTransactions.heldHere();
      hold?.commitIsLate();
      await gate.opened;
      hold?.commitCame();
    });
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    await settled();
    store.listener.reconnected();
    await clock.advance(10_000);
    expect(await store.unanswered()).toEqual([]);
    gate.open();
    (await store.next('release')).reply({ kind: 'released' });
    await call;
  });
});

describe('a hold that ended by maxHoldMs', () => {
  it('is not renewed any more, does not answer to `wanted`, and is released when its work has settled [R4]', async () => {
    const { clock, store, held, wanted, nothingLeft } = await startScripted({ maxHoldMs: 5_000 });
    const { hold, token } = await held();
    await clock.advance(5_000);
    expect(hold.signal.reason).toMatchObject({ reason: 'max-hold' });
    wanted(token);
    await clock.advance(20_000);
    expect(await store.unanswered()).toEqual([]);

    const released = hold.release();
    const release = await store.next('release');
    expect(release.command.token).toBe(token);
    release.reply({ kind: 'released' });
    expect(await released).toBe(false); // the hold was over before
    await nothingLeft();
  });

  it.each(['max-hold', 'deleted', 'expired'])(
    'is forgotten if its work never ends, but not before its lease has: %s',
    async (reason) => {
      const maxHoldMs = reason === 'max-hold' ? 5_000 : 600_000;
      const { clock, store, held, wanted, nothingLeft } = await startScripted({ maxHoldMs });
      const { hold, token } = await held();
      await clock.advance(reason === 'max-hold' ? 5_000 : 10_000);
      if (reason !== 'max-hold') {
        (await store.next('renew')).reply(reason === 'deleted' ? { kind: 'lost' } : unknown);
        if (reason === 'expired') await clock.advance(20_000);
      }
      await settled();
      expect(hold.signal.reason).toMatchObject({ reason });
      while ((await store.unanswered()).length > 0) (await store.next('renew')).reply(unknown);
      for (let ms = 0; ms < 45_000; ms += 5_000) {
        await clock.advance(5_000);
        wanted(token);
        expect(await store.unanswered()).toEqual([]);
      }
      await clock.advance(60_000);
      await nothingLeft();
      void hold.release();
      (await store.next('release')).reply({ kind: 'lost' });
      await nothingLeft();
    },
  );

  it('makes local callers ask for a lease of their own [R4]', async () => {
    const { clock, store, engine, held } = await startScripted({ maxHoldMs: 5_000 });
    const { hold, token } = await held();
    const second = engine.acquire(KEY);
    await clock.advance(5_000);
    const ask = await store.next('acquire');
    expect(ask.command.token).not.toBe(token);
    expect(hold.isHeld).toBe(false);
    ask.reply(granted(ask.command.token, 900));
    expect((await second).fencingToken).toBe(900);
  });
});

describe('a lease that was lost', () => {
  it('makes local callers ask again, within the rest of their wait [R22]', async () => {
    const { clock, store, engine, held } = await startScripted();
    const { hold, token } = await held();
    const second = engine.acquire(KEY, { waitMs: 12_000 });
    const refused = expect(second).rejects.toMatchObject({ waitedMs: 12_000 });
    await clock.advance(10_000);
    (await store.next('renew')).reply({ kind: 'lost' });
    const ask = await store.next('acquire');
    expect(hold.signal.aborted).toBe(true);
    expect(ask.command.token).not.toBe(token);
    ask.reply(queued(ask.command.token));
    await clock.advance(2_000);
    (await store.next('leave')).reply({ kind: 'left' });
    await refused;
  });

  it('is still released when its work has settled, not before: it may only be believed lost [R22]', async () => {
    const { clock, store, held } = await startScripted();
    const { hold, token } = await held();
    await clock.advance(10_000);
    (await store.next('renew')).reply({ kind: 'lost' });
    await clock.advance(1_000);
    expect(await store.unanswered()).toEqual([]);
    void hold.release();
    expect((await store.next('release')).command.token).toBe(token);
  });

  it('is reported once, although its release fails as well', async () => {
    const { clock, store, held, events } = await startScripted();
    const { hold } = await held();
    await clock.advance(10_000);
    (await store.next('renew')).reply({ kind: 'lost' });
    await settled();
    expect(await hold.release()).toBe(false);
    (await store.next('release')).reply(unknown);
    await settled();
    expect(events).toMatchObject([{ type: 'lost' }]);
  });
});

describe('handing out', () => {
  it('renews first when less than half of what the next caller asks for is left [R29]', async () => {
    const { clock, store, engine, held } = await startScripted();
    const { hold, token } = await held({ leaseMs: 2_000 });
    const second = engine.acquire(KEY, { leaseMs: 60_000 });
    await clock.advance(500);
    void hold.release();
    const renewal = await store.next('renew');
    expect(renewal.command).toMatchObject({ token, leaseMs: 60_000 });
    renewal.reply(renewed());
    expect((await second).remainingMs()).toBe(60_000 - 600);
  });

  it('waits while that renewal is not answered, and asks again when the lease has ended [R29]', async () => {
    const { clock, store, engine, held } = await startScripted();
    const { hold, token } = await held({ leaseMs: 2_000 });
    const second = engine.acquire(KEY, { leaseMs: 60_000 });
    let told = false;
    void second.then(() => (told = true));
    void hold.release();
    for (let passed = 0; passed < 1_900; passed += 100) {
      (await store.next('renew')).reply(unknown);
      await clock.advance(100);
    }
    expect(told).toBe(false);
    await clock.advance(100);
    (await store.next('renew')).reply(unknown);
    const release = await store.next('release');
    expect(release.command.token).toBe(token);
    release.reply({ kind: 'released' });
    await clock.advance(100);
    const ask = await store.next('acquire');
    expect(ask.command.token).not.toBe(token);
    ask.reply(granted(ask.command.token));
    expect((await second).isHeld).toBe(true);
  });
});

describe('a granted lease', () => {
  it('is renewed for the first time after a third of its acceptance lease, so that short work costs nothing [R32]', async () => {
    const { clock, store, waiting, grant } = await startScripted();
    const { hold, token } = await waiting();
    grant(token);
    await hold;
    await clock.advance(940);
    expect(await store.unanswered()).toEqual([]);
    await clock.advance(60);
    expect((await store.next('renew')).command).toMatchObject({ token, leaseMs: 30_000 });
  });

  it('is renewed at once if another call waits here, which then gets it without asking the store', async () => {
    const { clock, store, engine, waiting, grant } = await startScripted();
    const { hold, token } = await waiting();
    const second = engine.acquire(KEY);
    grant(token);
    const first = await hold;
    const renewal = await store.next('renew');
    expect(renewal.command).toMatchObject({ token, leaseMs: 30_000 });
    void engine.acquire(KEY);
    await clock.advance(10);
    expect(await store.unanswered()).toEqual([]); // one renewal is enough
    renewal.reply(renewed());
    await settled();
    void first.release();
    expect((await second).isHeld).toBe(true);
    expect(await store.unanswered()).toEqual([]);
  });
});

describe('a re-check that was carried out after its waiter had got the key and released it', () => {
  it('is taken back', async () => {
    const { clock, store, waiting, grant } = await startScripted({ waitMs: 120_000 });
    const { hold, token } = await waiting();
    await clock.advance(40_000);
    const recheck = await store.next('recheck');
    grant(token);
    (await store.next('renew')).reply(renewed());
    const lock = await hold;
    void lock.release();
    (await store.next('release')).reply({ kind: 'released' });
    recheck.reply(granted(recheck.command.newToken, 900));
    const leave = await store.next('leave');
    expect(leave.command.tokens).toContain(recheck.command.newToken);
  });
});

describe('other processes that want the key', () => {
  it('are also reported by a renewal [R18]', async () => {
    const { clock, store, engine, held } = await startScripted({ localHandovers: 0 });
    const { hold } = await held();
    void engine.acquire(KEY, { waitMs: 60_000 });
    await clock.advance(10_000);
    (await store.next('renew')).reply(renewed(1));
    await settled();
    void hold.release();
    expect(await store.unanswered()).toEqual(['requeue']);
  });

  it('that asked before a call of this process go first if no local hand-over is allowed', async () => {
    const { clock, store, engine, held, wanted } = await startScripted({ localHandovers: 0 });
    const { hold, token } = await held();
    void engine.acquire(KEY, { waitMs: 60_000 });
    await clock.advance(700);
    wanted(token);
    void hold.release();
    expect((await store.next('requeue')).command.waitedMs).toBe(700);
  });

  it('find the full budget of local hand-overs, however many there were before', async () => {
    const { store, engine, wanted } = await startScripted({ localHandovers: 2 });
    const holds = Array.from({ length: 9 }, () => engine.acquire(KEY));
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    for (const hold of holds.slice(0, 5)) void (await hold).release();
    await settled();
    wanted(ask.command.token);
    for (const hold of holds.slice(5, 7)) void (await hold).release();
    await settled();
    expect(await store.unanswered()).toEqual([]);
    void (await holds[7]!).release();
    expect(await store.unanswered()).toEqual(['requeue']);
  });

  it('wait for one turn only, however often they are reported', async () => {
    const { clock, store, engine, wanted } = await startScripted({ localHandovers: Infinity });
    const holds = [engine.acquire(KEY), engine.acquire(KEY), engine.acquire(KEY)];
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    await settled();
    wanted(ask.command.token);
    await clock.advance(60);
    void (await holds[0]!).release();
    await settled();
    wanted(ask.command.token);
    await clock.advance(60);
    void (await holds[1]!).release();
    expect(await store.unanswered()).toEqual(['requeue']);
  });

  it('are forgotten when a hand-over finds that they have left [R50]', async () => {
    const { store, engine, wanted } = await startScripted({ localHandovers: 0 });
    const holds = [1, 2, 3].map(() => engine.acquire(KEY));
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    const first = await holds[0]!;
    wanted(ask.command.token);
    void first.release();
    const requeue = await store.next('requeue');
    requeue.reply(granted(requeue.command.newToken, 200));
    void (await holds[1]!).release();
    expect((await holds[2]!).fencingToken).toBe(201);
    expect(await store.unanswered()).toEqual([]);
  });
});

describe('an idle lease', () => {
  it('is not renewed, and given up at its deadline at the latest [R18]', async () => {
    const { clock, store, held, nothingLeft } = await startScripted({ lingerMs: 30_000 });
    const { hold } = await held();
    await hold.release();
    await clock.advance(29_699);
    expect(await store.unanswered()).toEqual([]);
    await clock.advance(1);
    const release = await store.next('release');
    expect(release.command.used).toBe(hold.fencingToken); // it is not lost: its unused numbers are given back
    release.reply({ kind: 'released' });
    await nothingLeft();
  });

  it('is given up when a connection was lost: the server may be another one, or empty [R26]', async () => {
    const { store, held, nothingLeft } = await startScripted({ lingerMs: 30_000 });
    const { hold } = await held();
    await hold.release();
    store.listener.reconnected();
    (await store.next('release')).reply({ kind: 'lost' });
    await nothingLeft();
  });
});

describe('a wait that is given up', () => {
  it('counts a grant for the old token from when that token was sent, even while a re-check is in flight', async () => {
    const { clock, store, grant, waiting } = await startScripted();
    const { hold, token } = await waiting();
    await clock.advance(5_001);
    const recheck = await store.next('recheck');
    grant(token); // it was made for three seconds, perhaps five seconds ago
    const renewal = await store.next('renew');
    expect(renewal.command).toMatchObject({ token });
    expect(await Promise.race([hold, settled().then(() => 'nobody has it')])).toBe('nobody has it');
    recheck.reply(granted(token));
    renewal.reply({ kind: 'renewed', blockEnd: 2_000_000, waiters: 0 });
    expect((await hold).isHeld).toBe(true);
  });

  it.each(['a re-check', 'the last try'])(
    'renews a fixed lease before it is handed out if %s tells that the old token has it',
    async (told) => {
      const { clock, store, waiting } = await startScripted();
      const isRecheck = told === 'a re-check';
      const options = { renew: false, leaseMs: 30_000, waitMs: isRecheck ? 60_000 : 4_000 };
      const { hold, token } = await waiting(options);
      await clock.advance(isRecheck ? 5_001 : 4_000);
      const tried = await store.next(isRecheck ? 'recheck' : 'leave');
      tried.reply(granted(token)); // perhaps it was granted seconds ago
      const renewal = await store.next('renew');
      expect(renewal.command).toMatchObject({ token, leaseMs: 30_000 });
      renewal.reply({ kind: 'renewed', blockEnd: 2_000_000, waiters: 0 });
      expect((await hold).remainingMs()).toBeGreaterThan(29_000);
    },
  );

  it('does not let the answer to a re-check decide when the last try is in flight', async () => {
    const { clock, store, waiting } = await startScripted();
    const { hold } = await waiting({ waitMs: 5_500 });
    await clock.advance(5_500);
    const recheck = await store.next('recheck');
    const leave = await store.next('leave');
    recheck.reply(queued(recheck.command.newToken));
    await settled();
    leave.reply(granted(recheck.command.newToken));
    expect((await hold).isHeld).toBe(true);
  });

  it('takes back both tokens while a re-check is in flight [R20]', async () => {
    const { clock, store, waiting, nothingLeft } = await startScripted();
    const controller = new AbortController();
    const { hold, token } = await waiting({ signal: controller.signal });
    store.listener.reconnected();
    await clock.advance(1);
    const recheck = await store.next('recheck');
    controller.abort();
    await expect(hold).rejects.toThrow(LockAbortedError);
    const leave = await store.next('leave');
    expect(leave.command.tokens).toEqual([token, recheck.command.newToken]);
    leave.reply({ kind: 'left' });
    recheck.reply(queued(recheck.command.newToken));
    // That reply may be of a command that ran after the clean-up: what it says is undone as well.
    const last = await store.next('leave');
    expect(last.command.tokens).toEqual([recheck.command.newToken]);
    last.reply({ kind: 'left' });
    await nothingLeft();
  });

  it('ends at once; close() waits until the store has answered [R20]', async () => {
    const { store, engine, waiting } = await startScripted();
    const controller = new AbortController();
    const { hold } = await waiting({ signal: controller.signal });
    controller.abort();
    await expect(hold).rejects.toThrow(LockAbortedError); // nothing has been answered yet
    let closed = false;
    const closing = engine.close(1_000).then(() => (closed = true));
    const leave = await store.next('leave');
    expect(closed).toBe(false);
    leave.reply({ kind: 'left' });
    await closing;
  });

  it('is taken back until the store answers, or until the lease in question must have ended [R23]', async () => {
    const { clock, store, engine, nothingLeft } = await startScripted({ leaseMs: 2_000 });
    const refused = expect(engine.acquire(KEY, { waitMs: 0 })).rejects.toThrow(LockStoreError);
    (await store.next('acquire')).reply(unknown);
    await refused;
    let attempts = 0;
    for (let passed = 0; passed < 10_000; passed += 100) {
      for (let left = (await store.unanswered()).length; left > 0; left--) {
        (await store.next('leave')).reply(unknown);
        attempts++;
      }
      await clock.advance(100);
    }
    expect(attempts).toBeGreaterThan(3);
    expect(attempts).toBeLessThan(8);
    await nothingLeft();
  });
});

describe('a call that comes while the release is in flight', () => {
  it('asks with a new token after the release, and does not join the ending lease [R42]', async () => {
    const { store, engine, held } = await startScripted();
    const { hold, token } = await held();
    void hold.release();
    const next = engine.acquire(KEY);
    await settled();
    expect(await store.unanswered()).toEqual(['release', 'acquire']);
    (await store.next('release')).reply({ kind: 'released' });
    const ask = await store.next('acquire');
    expect(ask.command.token).not.toBe(token);
    ask.reply(granted(ask.command.token, 500));
    expect((await next).fencingToken).toBe(500);
  });
});

describe('after a reconnect', () => {
  it('every lease is renewed at once, the most urgent first; a missing answer is not a loss [R26]', async () => {
    const { clock, store, engine } = await startScripted();
    const holds = [];
    for (const [name, leaseMs] of [
      ['slow', 60_000],
      ['urgent', 10_000],
      ['usual', 30_000],
    ] as const) {
      const hold = engine.acquire(name, { leaseMs });
      const ask = await store.next('acquire');
      ask.reply(granted(ask.command.token));
      holds.push(await hold);
    }
    const names: string[] = [];
    const { renew } = store;
    store.renew = (commands) => {
      names.push(...commands.map(({ key }) => key));
      return renew(commands);
    };
    store.listener.reconnected();
    await clock.advance(0);
    expect(names).toEqual(['urgent', 'usual', 'slow']);
    for (let i = 0; i < 3; i++) (await store.next('renew')).reply(unknown);
    await settled();
    expect(holds.map(({ isHeld }) => isHeld)).toEqual([true, true, true]);
  });
});

describe('of leases that are renewed together', () => {
  it('each acts on its own answer, and the others may never be answered [D49]', async () => {
    const { clock, store, engine } = await startScripted({ leaseMs: 3_000 });
    const holds: HeldLock[] = [];
    for (const name of ['a', 'b', 'c']) {
      const hold = engine.acquire(name);
      const ask = await store.next('acquire');
      ask.reply(granted(ask.command.token));
      holds.push(await hold);
    }
    let together = 0;
    const { renew } = store;
    store.renew = (commands) => {
      together = Math.max(together, commands.length);
      return renew(commands);
    };
    await clock.advance(1_000);
    expect(together).toBe(3);
    for (let i = 0; i < 3; i++) {
      const renewal = await store.next('renew');
      if (renewal.command.key === 'b') renewal.reply({ kind: 'renewed', blockEnd: 0, waiters: 0 });
      if (renewal.command.key === 'c') renewal.reply({ kind: 'lost' });
    }
    await settled();
    expect(holds.map(({ isHeld }) => isHeld)).toEqual([true, true, false]);
    await clock.advance(1_999);
    expect(holds.map(({ isHeld }) => isHeld)).toEqual([false, true, false]);
  });
});

describe('when the store was silent', () => {
  it('leases whose renewal is in flight are not renewed twice, and one event comes before theirs [D52]', async () => {
    const { clock, store, engine, events } = await startScripted({ leaseMs: 3_000 });
    const holds: HeldLock[] = [];
    for (const name of ['a', 'b', 'c']) {
      const hold = engine.acquire(name);
      const ask = await store.next('acquire');
      ask.reply(granted(ask.command.token));
      holds.push(await hold);
    }
    await clock.advance(1_000);
    const renewals = [
      await store.next('renew'),
      await store.next('renew'),
      await store.next('renew'),
    ];
    store.listener.storeLost(unknown.cause);
    for (const renewal of renewals) renewal.reply(unknown);
    await settled();
    expect(events.map(({ type }) => type)).toEqual([
      'store-lost',
      'renewal-unknown',
      'renewal-unknown',
      'renewal-unknown',
    ]);
    await clock.advance(100);
    const again = [await store.next('renew'), await store.next('renew'), await store.next('renew')];
    store.listener.storeBack();
    store.listener.reconnected();
    await clock.advance(10);
    expect(await store.unanswered()).toEqual([]);
    for (const renewal of again) renewal.reply({ kind: 'renewed', blockEnd: 0, waiters: 0 });
    await settled();
    store.listener.reconnected(); // nothing is in flight now, and the server may be another one
    await clock.advance(10);
    expect(await store.unanswered()).toEqual(['renew', 'renew', 'renew']);
    expect(holds.map(({ isHeld }) => isHeld)).toEqual([true, true, true]);
  });
});

describe('answers that come late', () => {
  it('are followed by few commands for all of their leases, and so are failures [D52]', async () => {
    const { clock, store, engine } = await startScripted({ leaseMs: 12_000 });
    for (let i = 0; i < 50; i++) {
      const hold = engine.acquire(`k:${i}`);
      const ask = await store.next('acquire');
      ask.reply(granted(ask.command.token));
      await hold;
    }
    const sizes: number[] = [];
    const { renew } = store;
    store.renew = (commands) => {
      sizes.push(commands.length);
      return renew(commands);
    };
    const answer = async (reply: RenewReply): Promise<void> => {
      const renewals = await Promise.all(
        Array.from({ length: 50 }, async () => store.next('renew')),
      );
      for (const renewal of renewals) renewal.reply(reply);
      await settled();
    };
    await clock.advance(4_000);
    await clock.advance(5_000); // longer than a third of the lease
    await answer({ kind: 'renewed', blockEnd: 0, waiters: 0 });
    await clock.advance(1);
    await answer(unknown);
    await clock.advance(100);
    expect(sizes).toEqual([50, 49, 1, 50]); // the last answer is followed by no other
  });
});

describe('after a suspend of the machine', () => {
  const SLEPT_MS = 600_000;

  it('a lease is renewed at the next check, long before its time [R8]', async () => {
    const { clock, store, engine, held } = await startScripted();
    const { hold } = await held();
    void engine.acquire('other', { waitMs: 50 }).catch(() => {}); // something that is due soon
    (await store.next('acquire')).reply(queued('x'));
    clock.stepWall(SLEPT_MS);
    await clock.advance(50);
    expect(await store.unanswered()).toContain('renew');
    expect(hold.signal.aborted).toBe(false);
  });

  it('a lease that may be over does not count as held before the store has confirmed it [D17]', async () => {
    const { clock, store, held } = await startScripted();
    const { hold, token } = await held();
    clock.stepWall(29_000);
    expect(hold.isHeld).toBe(true);
    expect(hold.remainingMs()).toBeLessThanOrEqual(1_000);
    clock.stepWall(1_001);
    expect(hold.isHeld).toBe(false);
    expect(() => hold.assertHeld()).toThrow(LockStoreError); // neither held nor lost
    const ensured = hold.ensureRemaining(5_000);
    for (let left = (await store.unanswered()).length; left > 0; left--) {
      const renewal = await store.next('renew');
      expect(renewal.command.token).toBe(token);
      renewal.reply(renewed());
    }
    await ensured;
    expect(hold.isHeld).toBe(true);
    hold.assertHeld();
  });

  it.each([
    ['may be over', SLEPT_MS],
    ['seems to be far from its end', 5_000],
  ])(
    'nothing is handed out before the store has confirmed a lease that %s [R8, G4]',
    async (_, sleptMs) => {
      const { clock, store, engine, held } = await startScripted();
      const { hold } = await held();
      const second = engine.acquire(KEY);
      clock.stepWall(sleptMs);
      void hold.release();
      const renewal = await store.next('renew');
      renewal.reply({ kind: 'lost' });
      const ask = await store.next('acquire');
      ask.reply(granted(ask.command.token, 700));
      expect((await second).fencingToken).toBe(700);
    },
  );

  it('a renewal that was sent before the suspend proves nothing', async () => {
    const { clock, store, engine, held } = await startScripted();
    const { hold } = await held();
    const second = engine.acquire(KEY, { waitMs: 60_000 });
    await clock.advance(10_000);
    const before = await store.next('renew');
    clock.stepWall(SLEPT_MS);
    void engine.acquire('other', { waitMs: 50 }).catch(() => {}); // something that is due soon
    (await store.next('acquire')).reply(queued('x'));
    await clock.advance(50);
    expect(await store.unanswered()).toContain('renew'); // the one that will tell
    before.reply(renewed());
    await settled();
    void hold.release();
    await settled();
    expect(await Promise.race([second, Promise.resolve('waiting')])).toBe('waiting');
  });

  it('an idle lease is given up [R8]', async () => {
    const { clock, store, engine, held } = await startScripted({ lingerMs: 20_000 });
    const { hold } = await held();
    await hold.release();
    clock.stepWall(SLEPT_MS);
    const next = engine.acquire(KEY);
    await store.next('release'); // the key is free before it is asked for
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token, 800));
    expect((await next).fencingToken).toBe(800);
  });
});

describe('an operator takes the key away', () => {
  const revoke = (store: { listener: StoreListener }, token: string) =>
    store.listener.message({ kind: 'revoked', key: KEY, token });

  it('from a holder of this process, which knows it as soon as forceRelease has answered [R40]', async () => {
    const { engine, store, held } = await startScripted();
    const { hold, token } = await held();
    const revoke = async () => ({ value: token, holders: [{ token, process: undefined }] }); // the message of the store has not arrived yet
    store.inspector = { ...store.inspector, revoke };
    expect(await engine.forceRelease(KEY)).toBe(true);
    expect(hold.signal.aborted).toBe(true);
  });

  it('from a lease that lingers unused: the next caller asks again [D7]', async () => {
    const { store, engine, held } = await startScripted({ lingerMs: 20_000 });
    const { hold, token } = await held();
    await hold.release();
    revoke(store, token);
    void engine.acquire(KEY);
    expect((await store.next('release')).command.token).toBe(token); // in case it is only believed lost
    const ask = await store.next('acquire');
    expect(ask.command.token).not.toBe(token);
  });

  it('from a lease that is being confirmed for the next caller', async () => {
    const { store, engine, held } = await startScripted();
    const { hold, token } = await held({ leaseMs: 2_000 });
    const second = engine.acquire(KEY, { leaseMs: 60_000 });
    void hold.release();
    const renewal = await store.next('renew');
    revoke(store, token);
    const ask = await store.next('acquire');
    expect(ask.command.token).not.toBe(token);
    renewal.reply(renewed()); // sent by the store before the operator came
    ask.reply(granted(ask.command.token, 900));
    expect((await second).fencingToken).toBe(900);
  });

  it('before the reply that grants it has arrived: that grant does not count [D37]', async () => {
    const { store, engine } = await startScripted();
    const call = engine.acquire(KEY);
    const ask = await store.next('acquire');
    revoke(store, ask.command.token);
    ask.reply(granted(ask.command.token, 100));
    const again = await store.next('acquire');
    expect(again.command.token).not.toBe(ask.command.token);
    again.reply(granted(again.command.token, 900));
    expect((await call).fencingToken).toBe(900);
  });
});

describe('a fixed lease', () => {
  const fixed = { renew: false, leaseMs: 5_000 } as const;

  it('that was granted by a message has the length that was asked for [D8]', async () => {
    const { clock, store, waiting, grant } = await startScripted();
    const { hold, token } = await waiting(fixed);
    await clock.advance(200);
    grant(token); // three seconds
    const confirm = await store.next('renew');
    expect(confirm.command).toMatchObject({ token, leaseMs: 5_000 });
    confirm.reply(renewed());
    expect((await hold).remainingMs()).toBe(5_000 - 50);
    await clock.advance(4_949);
    expect((await hold).isHeld).toBe(true);
    await clock.advance(1);
    expect((await hold).isHeld).toBe(false);
  });

  it('has that length even if the message came late, and half of the acceptance lease was left [D56]', async () => {
    const { clock, store, waiting, grant } = await startScripted();
    const { hold, token } = await waiting({ renew: false, leaseMs: 3_000 });
    await clock.advance(1_000);
    grant(token); // for three seconds, from a moment that we do not know
    const confirm = await store.next('renew');
    expect(confirm.command).toMatchObject({ token, leaseMs: 3_000 });
    confirm.reply(renewed());
    expect((await hold).remainingMs()).toBe(3_000 - 30);
  });

  it('is not handed out before it has that length', async () => {
    const { store, waiting, grant } = await startScripted();
    const { hold, token } = await waiting(fixed);
    let isTold = false;
    void hold.then(() => (isTold = true));
    grant(token);
    await store.next('renew');
    await settled();
    expect(isTold).toBe(false);
  });

  it('is shorter than the acceptance lease of a grant, if that was requested', async () => {
    const { clock, waiting, grant } = await startScripted();
    const { hold, token } = await waiting({ renew: false, leaseMs: 500 });
    grant(token);
    expect((await hold).remainingMs()).toBe(495);
    await clock.advance(495);
    expect((await hold).isHeld).toBe(false);
  });

  it('does not inherit the length that another caller of this process requested [D8]', async () => {
    const { store, engine } = await startScripted();
    const controller = new AbortController();
    const first = engine.acquire(KEY, { leaseMs: 60_000, signal: controller.signal });
    const second = engine.acquire(KEY, fixed);
    const ask = await store.next('acquire');
    controller.abort();
    await expect(first).rejects.toThrow(LockAbortedError);
    ask.reply(granted(ask.command.token));
    const own = await store.next('requeue');
    expect(own.command).toMatchObject({ token: ask.command.token, leaseMs: 5_000 });
    own.reply(granted(own.command.newToken, 200));
    expect((await second).remainingMs()).toBe(5_000 - 50);
  });

  it('ends in time although a reconnect has asked what became of it', async () => {
    const { clock, store, held } = await startScripted();
    const { hold } = await held(fixed);
    await clock.advance(1_000);
    store.listener.reconnected();
    await clock.advance(1);
    const look = await store.next('renew');
    expect(look.command.leaseMs).toBeLessThanOrEqual(3_950);
    look.reply(renewed());
    await clock.advance(3_948);
    expect(hold.isHeld).toBe(true);
    await clock.advance(1);
    expect(hold.isHeld).toBe(false);
  });
});

describe('a store that says nothing while a lease is confirmed for the next caller', () => {
  it('is not mistaken for a busy lock [D14]', async () => {
    const { clock, store, engine, held } = await startScripted();
    const { hold } = await held({ leaseMs: 2_000 });
    const second = engine.withLock(
      KEY,
      { leaseMs: 60_000, waitMs: 1_000, onBusy: 'skip' },
      () => 1,
    );
    const third = engine.acquire(KEY, { waitMs: 1_000 });
    const refused = Promise.all([
      expect(second).rejects.toThrow(LockStoreError),
      expect(third).rejects.toThrow(LockStoreError),
    ]);
    void hold.release();
    await store.next('renew');
    await clock.advance(2_000);
    await refused;
  });

  it('tells the second caller that the lock is busy once the first has it', async () => {
    const { clock, store, engine, held } = await startScripted();
    const { hold } = await held({ leaseMs: 2_000 });
    const second = engine.acquire(KEY, { leaseMs: 60_000, waitMs: 10_000 });
    const third = engine.acquire(KEY, { waitMs: 1_000 });
    const refused = expect(third).rejects.toThrow(LockNotAcquiredError);
    void hold.release();
    const renewal = await store.next('renew');
    await clock.advance(1_500);
    renewal.reply(renewed());
    await refused;
    expect((await second).isHeld).toBe(true);
  });
});

describe('a lease that `ensureRemaining` has prolonged by much', () => {
  it('is checked as often as before, so that a loss is noticed [D35]', async () => {
    const { clock, store, held } = await startScripted();
    const { hold } = await held();
    const ensured = hold.ensureRemaining(600_000);
    (await store.next('renew')).reply(renewed());
    await ensured;
    await clock.advance(10_000);
    (await store.next('renew')).reply({ kind: 'lost' });
    await settled();
    expect(hold.signal.aborted).toBe(true);
  });
});

describe('a renewal that was not answered', () => {
  it("is reported with the rest of the hold's time, if that ends before its lease", async () => {
    const { clock, store, events, held } = await startScripted({ maxHoldMs: 12_000 });
    await held();
    await clock.advance(10_000);
    (await store.next('renew')).reply(unknown);
    await settled();
    expect(events).toMatchObject([{ type: 'renewal-unknown', remainingMs: 2_000 }]);
  });
});

describe('a hold that may not last as long as `ensureRemaining` asks', () => {
  it('is not prolonged: a crash would leave the key taken for that long [D41]', async () => {
    const { store, held } = await startScripted({ maxHoldMs: 60_000 });
    const { hold } = await held();
    await expect(hold.ensureRemaining(3_600_000)).rejects.toMatchObject({
      reason: 'max-hold',
      message: expect.stringMatching(/for 3600000 ms.* 60000 ms/),
    });
    expect(await store.unanswered()).toEqual([]);
    expect(hold.isHeld).toBe(true);
  });

  it('reports its own end, not Redis, if it had the time when it asked, and the answer was slow', async () => {
    const { clock, store, held } = await startScripted({ maxHoldMs: 60_000 });
    const { hold } = await held();
    const ensured = expect(hold.ensureRemaining(59_500)).rejects.toMatchObject({
      code: 'LOCK_LOST',
      reason: 'max-hold',
    });
    const renewal = await store.next('renew');
    await clock.advance(1_000);
    renewal.reply(renewed());
    await ensured;
    expect(hold.isHeld).toBe(true);
  });

  it('is kept until its end, when its short lease is refreshed for a transaction [D42]', async () => {
    const { clock, store, grant, waiting } = await startScripted({ maxHoldMs: 10_000 });
    const { hold, token } = await waiting();
    grant(token);
    const refreshed = (await hold).holds[0]?.refresh(15_000);
    const renewal = await store.next('renew');
    await clock.advance(5);
    renewal.reply(renewed());
    await refreshed;
    expect((await hold).remainingMs()).toBe(10_000 - 5);
  });
});

describe('a lease that lingers unused', () => {
  it('is released as soon as another process asks for it', async () => {
    const { store, held, wanted, nothingLeft } = await startScripted({ lingerMs: 20_000 });
    const { hold, token } = await held();
    await hold.release();
    await settled();
    expect(await store.unanswered()).toEqual([]);
    wanted(token);
    const release = await store.next('release');
    expect(release.command.token).toBe(token);
    release.reply({ kind: 'released' });
    await settled();
    await nothingLeft();
  });

  it('is not kept while no message could say that another process asks for it', async () => {
    const { store, held, nothingLeft } = await startScripted({ lingerMs: 20_000 });
    const { hold } = await held();
    store.listener.inboxLost('', new LockStoreError('cut'));
    void hold.release();
    (await store.next('release')).reply({ kind: 'released' });
    store.listener.inboxBack?.('');
    await nothingLeft();
  });
});

describe('a hand-over that was not answered', () => {
  it('takes back the old token and the new one [D46]', async () => {
    const { store, engine, held, wanted } = await startScripted({ localHandovers: 0 });
    const { hold, token } = await held();
    wanted(token);
    void engine.acquire(KEY).catch(() => {});
    const released = expect(hold.release()).rejects.toThrow(LockStoreError);
    const requeue = await store.next('requeue');
    requeue.reply(unknown);
    await released;
    const takenBack = new Set<string>();
    for (const kind of (await store.unanswered()) as ('release' | 'leave')[]) {
      const { command } = await store.next(kind);
      takenBack.add('token' in command ? command.token : command.tokens[0]);
    }
    expect(takenBack).toEqual(new Set([token, requeue.command.newToken]));
  });

  it.each([
    ['released', true],
    ['lost', false],
  ] as const)(
    'and not carried out: the release alone shows this, and says %s',
    async (kind, isOurs) => {
      const { store, engine, held, wanted } = await startScripted({ localHandovers: 0 });
      const { hold, token } = await held();
      wanted(token);
      void engine.acquire(KEY).catch(() => {});
      const released = hold.release();
      (await store.next('requeue')).reply({ ...unknown, neverRan: true });
      const alone = await store.next('release');
      expect(alone.command.token).toBe(token);
      alone.reply({ kind });
      expect(await released).toBe(isOurs);
    },
  );
});

describe('a single try whose answer is unread while the event loop is blocked', () => {
  it('uses that answer [D53]', async () => {
    const { clock, store, engine } = await startScripted();
    const tried = engine.tryAcquire(KEY);
    const ask = await store.next('acquire');
    clock.block(3_000);
    await clock.advance(0); // timers come before replies
    ask.reply(granted(ask.command.token));
    expect((await tried)?.isHeld).toBe(true);
  });

  it('does not count that time: a command sent on a new connection still has its own', async () => {
    const { clock, store, engine } = await startScripted();
    const tried = engine.tryAcquire(KEY);
    const ask = await store.next('acquire');
    await clock.advance(300);
    clock.block(3_000);
    await clock.advance(ANSWER_GRACE_MS - 400);
    ask.reply(granted(ask.command.token));
    expect((await tried)?.isHeld).toBe(true);
  });

  it('ends when the rest of its time is over', async () => {
    const { clock, store, engine } = await startScripted();
    const tried = engine.tryAcquire(KEY);
    const failed = expect(tried).rejects.toMatchObject({ code: 'LOCK_STORE_FAILED' });
    await store.next('acquire');
    await clock.advance(300);
    clock.block(3_000);
    await clock.advance(ANSWER_GRACE_MS);
    await failed;
  });
});

describe('work that asks for another lock while the application closes', () => {
  it('is refused when the time for it is over [D54]', async () => {
    const { clock, store, engine } = await startScripted();
    const mayAsk = makeGate();
    const work = engine.withLock(KEY, {}, async () => {
      await mayAsk.opened;
      await engine.withLock(`${KEY}:x`, { waitMs: Infinity }, () => {});
    });
    const refused = expect(work).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    const first = await store.next('acquire');
    first.reply(granted(first.command.token));
    await settled();
    const closed = engine.close(1_000);
    mayAsk.open();
    const second = await store.next('acquire');
    second.reply(queued(second.command.token));
    await settled();
    await clock.advance(1_000);
    (await store.next('leave')).reply({ kind: 'left' });
    (await store.next('release')).reply({ kind: 'released' });
    await Promise.all([refused, closed]);
  });
});

describe('a lock whose key was deleted, released while another caller here waits', () => {
  it('is known to have been lost when the release asked Redis [D29]', async () => {
    const { store, engine, held } = await startScripted({ localHandovers: 0 });
    const { hold, token } = await held();
    store.listener.message({ kind: 'wanted', key: KEY, token });
    void engine.acquire(KEY).catch(() => {});
    const released = hold.release();
    const requeue = await store.next('requeue');
    requeue.reply({ ...granted(requeue.command.newToken, 900), wasLost: true });
    expect(await released).toBe(false);
  });
});

describe('a label', () => {
  it('costs no command, however often the lease is handed over [D32]', async () => {
    const { store, engine } = await startScripted();
    const calls = ['sale', 'refund', undefined].map((label) =>
      engine.withLock(KEY, label === undefined ? {} : { label }, () => Promise.resolve()),
    );
    const ask = await store.next('acquire');
    expect(ask.command.token).toMatch(/^[0-9a-f]{32}:\d+:sale$/);
    ask.reply(granted(ask.command.token));
    await settled();
    (await store.next('release')).reply({ kind: 'released' });
    await Promise.all(calls);
    expect(await store.unanswered()).toEqual([]);
  });

  it('is that of the call which is next when the request is repeated', async () => {
    const { clock, store, engine } = await startScripted();
    const first = engine.acquire(KEY, { label: 'sale', waitMs: 100 }).catch(() => 'busy');
    const second = engine.acquire(KEY, { label: 'refund', waitMs: 60_000 });
    const ask = await store.next('acquire');
    expect(ask.command.token).toMatch(/:sale$/);
    ask.reply(queued(ask.command.token));
    await clock.advance(100);
    expect(await first).toBe('busy');
    await clock.advance(10_000);
    const recheck = await store.next('recheck');
    expect(recheck.command.newToken).toMatch(/:refund$/);
    recheck.reply(granted(recheck.command.newToken));
    const lock = await second;
    const released = lock.release();
    (await store.next('release')).reply({ kind: 'released' });
    await released;
  });
});

describe('a logger that throws', () => {
  it('does not keep the answers of a renewal from the other leases [D36]', async () => {
    const { clock, store, engine, events } = await startScripted();
    events.push = () => {
      throw new Error('the log is full');
    };
    const holds = [];
    for (const key of ['a', 'b', 'c']) {
      const call = engine.acquire(key);
      const ask = await store.next('acquire');
      ask.reply(granted(ask.command.token));
      holds.push(await call);
    }
    await clock.advance(10_000);
    for (let i = 0; i < 3; i++) (await store.next('renew')).reply({ kind: 'lost' });
    await settled();
    expect(holds.map(({ isHeld }) => isHeld)).toEqual([false, false, false]);
  });
});

const IN_DOUBT = new LockCommitUnknownError('in doubt', KEY);

/** A call whose work goes on although the outcome of its transaction is unknown; `end` ends it. */
async function startInDoubt(options?: LockServiceOptions, ofCall: LockOptions = {}) {
  const started = await startScripted(options);
  const { store, engine } = started;
  const end = makeGate();
  const call = engine.withLock(KEY, ofCall, async () => {
    for (const hold of engine.inTransactions.heldHere()) hold.commitUnknown(IN_DOUBT);
    await end.opened;
  });
  const ask = await store.next('acquire');
  ask.reply(granted(ask.command.token));
  await settled();
  return { ...started, end, call, token: ask.command.token };
}

describe('a closed service', () => {
  it('leaves no timer behind, even for a lease whose transaction has an unknown outcome [D31]', async () => {
    const { clock, engine, end, call } = await startInDoubt();
    end.open();
    await call;
    await engine.close(0);
    expect(clock.timers).toBe(0);
  });
});

describe('a transaction whose outcome is unknown', () => {
  it('keeps the key until the lease has run out, even if the hold had been declared lost before', async () => {
    const { clock, store, engine, nothingLeft } = await startScripted();
    let holds: readonly { commitUnknown(doubt: LockCommitUnknownError): void }[] = [];
    const end = makeGate();
    const call = engine.withLock(KEY, { maxHoldMs: 1_000 }, async () => {
      holds = engine.inTransactions.heldHere();
      await end.opened;
    });
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    await settled();
    await clock.advance(1_000);
    for (const hold of holds) hold.commitUnknown(IN_DOUBT);
    end.open();
    await call;
    expect(await store.unanswered()).toEqual([]);
    await clock.advance(100_000);
    await nothingLeft();
  });

  it('keeps the key for holdAtLeastMs, and until the lease has run out in the store as well', async () => {
    const options = { holdAtLeastMs: 2_975 }; // the lease ends after 2,970 ms here
    const { clock, store, end, call } = await startInDoubt({ leaseMs: 3_000 }, options);
    await clock.advance(500);
    end.open();
    await settled();
    const released = await store.next('release');
    expect(released.command.keepMs).toBe(3_000); // a renewal may have been carried out late, even just now
    released.reply({ kind: 'released' });
    await call;
  });

  it('keeps the key for the whole lease, even if that was prolonged to end a little before holdAtLeastMs', async () => {
    const { store, engine } = await startScripted({ leaseMs: 3_000 });
    const call = engine.withLock(KEY, { holdAtLeastMs: 121_500 }, async (lock) => {
      await lock.ensureRemaining(120_000); // for 122,500 ms in the store, of which 121,275 are certain
      for (const hold of engine.inTransactions.heldHere()) hold.commitUnknown(IN_DOUBT);
    });
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    (await store.next('renew')).reply({ kind: 'renewed', blockEnd: 1_000, waiters: 0 });
    const released = await store.next('release');
    expect(released.command.keepMs).toBe(122_500);
    released.reply({ kind: 'released' });
    await call;
  });

  it('keeps the key for its lease if holdAtLeastMs is shorter', async () => {
    const options = { holdAtLeastMs: 2_900 };
    const { clock, store, end, call, nothingLeft } = await startInDoubt(
      { leaseMs: 3_000 },
      options,
    );
    end.open();
    await call;
    expect(await store.unanswered()).toEqual([]);
    await clock.advance(100_000);
    await nothingLeft();
  });

  it('does not keep a key for holdAtLeastMs that was lost before', async () => {
    const options = { holdAtLeastMs: 60_000, maxHoldMs: 1_000 };
    const { clock, store, end, call, nothingLeft } = await startInDoubt(
      { leaseMs: 3_000 },
      options,
    );
    await clock.advance(1_000);
    end.open();
    await call;
    expect(await store.unanswered()).toEqual([]);
    await clock.advance(100_000);
    await nothingLeft();
  });

  it('is not renewed although another COMMIT under it is answered after all', async () => {
    const { clock, store, engine } = await startScripted();
    const end = makeGate();
    const call = engine.withLock(KEY, {}, async () => {
      const [hold] = engine.inTransactions.heldHere();
      hold?.commitIsLate();
      hold?.commitUnknown(IN_DOUBT);
      hold?.commitCame();
      await end.opened;
    });
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    await clock.advance(20_000);
    expect(await store.unanswered()).toEqual([]);
    end.open();
    await call;
  });

  it('does not concern the next call of the process if its own had ended before', async () => {
    const { clock, store, engine, held } = await startScripted();
    const { hold } = await held();
    const next = engine.acquire(KEY);
    await hold.release();
    await next;
    hold.holds[0]?.commitUnknown(IN_DOUBT);
    await clock.advance(10_000);
    expect(await store.unanswered()).toEqual(['renew']);
  });

  it('is forgotten at once when an operator takes its key away', async () => {
    const { store, end, call, token, nothingLeft } = await startInDoubt();
    end.open();
    await call;
    store.listener.message({ kind: 'revoked', key: KEY, token });
    await nothingLeft();
  });

  it('is not renewed for a call that comes while its work still runs', async () => {
    const { clock, store, engine, end, call } = await startInDoubt({ leaseMs: 3_000 });
    await clock.advance(2_000);
    engine.acquire(KEY).catch(() => {});
    expect(await store.unanswered()).toEqual([]);
    end.open();
    await call;
  });
});
