/** `detach` and `adopt` in one process, whose store the test answers: what is refused, and what each leaves behind. */
import { describe, expect, it } from '@jest/globals';
import type { HeldLock } from '../../libs/nestjs-locked/src/core/calls/held-lock.js';
import {
  LockAbortedError,
  LockConfigError,
  LockLostError,
  LockNotAdoptedError,
  LockNotHeldError,
  LockStoreError,
} from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { settled } from '../support/fake-clock.js';
import { makeGate } from '../support/gate.js';
import { KEY, startScripted } from '../support/scripted-engine.js';
import { granted, unknown } from '../support/scripted-store.js';

type Scripted = Awaited<ReturnType<typeof startScripted>>;

const FOR_MS = 60_000;
const TOKEN = `${'b'.repeat(32)}:1000:job`;

/** A text as another process writes it. */
function text(leases: readonly unknown[] = [[KEY, TOKEN, 7]], prefix = 'lock:'): string {
  return `lock1.${Buffer.from(JSON.stringify([prefix, ...leases])).toString('base64url')}`;
}

function contentOf(detached: string): unknown {
  return JSON.parse(Buffer.from(detached.slice('lock1.'.length), 'base64url').toString());
}

const renewed = { kind: 'renewed', blockEnd: 0, waiters: 0 } as const;

async function detached({ store }: Scripted, lock: HeldLock): Promise<string> {
  const detaching = lock.detach({ forMs: FOR_MS });
  const renew = await store.next('renew');
  expect(renew.command.leaseMs).toBe(FOR_MS);
  renew.reply(renewed);
  return detaching;
}

describe('lock.detach()', () => {
  it('prolongs the lease, ends the lock here, and gives what adopt() needs', async () => {
    const scripted = await startScripted();
    const { engine, clock } = scripted;
    const { hold, token } = await scripted.held({ label: 'pack' });
    const { signal } = hold;
    const given = await detached(scripted, hold);

    expect(given).toMatch(/^[\w.-]+$/);
    expect(contentOf(given)).toEqual(['lock:', [KEY, token, hold.fencingToken]]);
    expect(hold.isHeld).toBe(false);
    expect(hold.remainingMs()).toBe(0);
    expect(() => hold.assertHeld()).toThrow(/is not held: it was detached, and whoever adopts it/);
    await expect(hold.ensureRemaining(0)).rejects.toMatchObject({ reason: 'detached' });
    await expect(hold.run(() => 1)).rejects.toThrow(LockLostError);
    expect(await hold.detach({ forMs: FOR_MS })).toBe(given);
    expect(await hold.release()).toBe(true);
    await clock.advance(FOR_MS - 1);
    expect(await scripted.store.unanswered()).toEqual([]);
    expect(signal.aborted).toBe(false);
    expect(scripted.events).toEqual([]);

    await clock.advance(2 * FOR_MS); // the lease has certainly ended by then
    await scripted.nothingLeft();
    await engine.close(0);
  });

  it('ignores messages about the token for as long as its lease may last', async () => {
    const scripted = await startScripted();
    const { hold, token } = await scripted.held();
    await detached(scripted, hold);
    scripted.wanted(token);
    scripted.store.listener.message({ kind: 'revoked', key: KEY, token });
    expect(await scripted.store.unanswered()).toEqual([]);
    expect(hold.signal.aborted).toBe(false);
  });

  it('makes the calls that wait here request the key as those of any process', async () => {
    const scripted = await startScripted();
    const { store, engine } = scripted;
    const { hold } = await scripted.held();
    const next = engine.acquire(KEY);
    await detached(scripted, hold);
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    expect((await next).isHeld).toBe(true);
  });

  it('is refused for a lost lock, and one that Redis no longer has', async () => {
    const scripted = await startScripted();
    const { hold } = await scripted.held();
    const detaching = hold.detach({ forMs: FOR_MS });
    (await scripted.store.next('renew')).reply({ kind: 'lost' });
    await expect(detaching).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'deleted' });
    expect(hold.signal.aborted).toBe(true);
    await expect(hold.detach({ forMs: FOR_MS })).rejects.toThrow(LockLostError);
    const releasing = hold.release();
    (await scripted.store.next('release')).reply({ kind: 'lost' });
    expect(await releasing).toBe(false);
    await expect(hold.detach({ forMs: FOR_MS })).rejects.toThrow(LockLostError);
    await scripted.nothingLeft();
  });

  it('leaves the lock attached if Redis does not answer, and may be tried again', async () => {
    const scripted = await startScripted();
    const { hold } = await scripted.held();
    const detaching = hold.detach({ forMs: FOR_MS });
    (await scripted.store.next('renew')).reply(unknown);
    const failure: unknown = await detaching.catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(LockStoreError);
    expect(failure).toMatchObject({ workBegan: true });
    expect(String(failure)).toMatch(/Cannot detach .* it is still held here/);
    expect(hold.isHeld).toBe(true);
    await scripted.clock.advance(100);
    (await scripted.store.next('renew')).reply(renewed);
    expect(contentOf(await detached(scripted, hold))).toHaveLength(2);
  });

  it('is refused as lost if the lock is lost before Redis fails to answer', async () => {
    const scripted = await startScripted();
    const { hold, token } = await scripted.held();
    const detaching = hold.detach({ forMs: FOR_MS });
    const renew = await scripted.store.next('renew');
    scripted.store.listener.message({ kind: 'revoked', key: KEY, token });
    renew.reply(unknown);
    await expect(detaching).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'revoked' });
  });

  it('is refused to a call that joined, and while one that joined runs', async () => {
    const scripted = await startScripted();
    const { engine, store } = scripted;
    const [inside, asked] = [makeGate(), makeGate()];
    const working = engine.withLock(KEY, {}, async (outer) => {
      const nested = engine.withLock(KEY, {}, async (inner) => {
        await expect(inner.detach({ forMs: FOR_MS })).rejects.toThrow(/joined a call around it/);
        await inside.opened;
      });
      await settled();
      await expect(outer.detach({ forMs: FOR_MS })).rejects.toThrow(LockConfigError);
      inside.open();
      await nested;
      expect(outer.isHeld).toBe(true);
      asked.open();
      const given = await outer.detach({ forMs: FOR_MS });
      expect(engine.current()).toBeUndefined();
      expect(() => engine.assertHeld()).toThrow(LockNotHeldError);
      return given;
    });
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    await asked.opened;
    (await store.next('renew')).reply(renewed);
    expect(contentOf(await working)).toEqual(['lock:', [KEY, ask.command.token, 100]]);
    expect(await store.unanswered()).toEqual([]); // nothing was released
    await settled();
    expect(scripted.events).toEqual([]); // nor is it kept by anybody here
  });

  it('is refused if a call joins, or the lock is released, before the answer', async () => {
    const scripted = await startScripted();
    const { engine, store } = scripted;
    const { hold } = await scripted.held();
    const inside = makeGate();
    const detaching = hold.detach({ forMs: FOR_MS });
    const renew = await store.next('renew');
    const nested = hold.run(() => engine.withLock(KEY, {}, () => inside.opened));
    await settled();
    renew.reply(renewed);
    await expect(detaching).rejects.toThrow(/calls inside that joined it still run/);
    inside.open();
    await nested;
    expect(hold.isHeld).toBe(true);

    const again = hold.detach({ forMs: FOR_MS });
    const second = await store.next('renew');
    const releasing = hold.release();
    (await store.next('release')).reply({ kind: 'released' });
    second.reply(renewed);
    expect(await releasing).toBe(true);
    await expect(again).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'released' });
    await scripted.nothingLeft();
  });

  it('is refused to permits', async () => {
    const { engine, store } = await startScripted();
    const asking = engine.acquire('api', { permits: 2 });
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    await expect((await asking).detach({ forMs: FOR_MS })).rejects.toThrow(/with permits/);
    expect(await store.unanswered()).toEqual([]);
  });

  it('is refused to readers, while holdAtLeastMs keeps the key, and for a wrong time', async () => {
    const scripted = await startScripted();
    const reading = scripted.engine.acquire('read', { mode: 'shared' });
    const ask = await scripted.store.next('acquire');
    ask.reply(granted(ask.command.token));
    await expect((await reading).detach({ forMs: FOR_MS })).rejects.toThrow(/mode: 'shared'/);
    const { hold } = await scripted.held({ holdAtLeastMs: 5_000 });
    await expect(hold.detach({ forMs: FOR_MS })).rejects.toThrow(/holdAtLeastMs/);
    for (const options of [undefined, {}, { forMs: 499 }, { forMs: Infinity }, { ttl: 5_000 }]) {
      await expect(hold.detach(options as never)).rejects.toThrow(LockConfigError);
    }
    expect(hold.isHeld).toBe(true);
    expect(await scripted.store.unanswered()).toEqual([]);
    await scripted.clock.advance(5_000);
    expect(contentOf(await detached(scripted, hold))).toHaveLength(2); // no mistake is held against it
  });

  it('of several keys leaves all or none', async () => {
    const scripted = await startScripted();
    const { engine, store } = scripted;
    const acquiring = engine.acquire(['a', 'b']);
    await settled();
    for (const ask of [store.take('together'), store.take('together')])
      ask.reply(granted(ask.command.token));
    const lock = await acquiring;
    const failing = lock.detach({ forMs: FOR_MS });
    (await store.next('renew')).reply(renewed);
    (await store.next('renew')).reply(unknown);
    await expect(failing).rejects.toThrow(LockStoreError);
    expect(lock.isHeld).toBe(true);
    await scripted.clock.advance(100);
    (await store.next('renew')).reply(renewed);
    const detaching = lock.detach({ forMs: FOR_MS });
    (await store.next('renew')).reply(renewed);
    (await store.next('renew')).reply(renewed);
    expect(contentOf(await detaching)).toMatchObject(['lock:', { 0: 'a' }, { 0: 'b' }]);
  });

  it('of several keys is refused if one is lost while the other is prolonged', async () => {
    const scripted = await startScripted();
    const { engine, store } = scripted;
    const acquiring = engine.acquire(['a', 'b']);
    await settled();
    const asks = [store.take('together'), store.take('together')];
    for (const ask of asks) ask.reply(granted(ask.command.token));
    const lock = await acquiring;
    const detaching = lock.detach({ forMs: FOR_MS });
    (await store.next('renew')).reply(renewed);
    const second = await store.next('renew');
    const { token } = asks[0]!.command;
    store.listener.message({ kind: 'revoked', key: 'a', token });
    second.reply(renewed);
    await expect(detaching).rejects.toMatchObject({ key: 'a', reason: 'revoked' });
    const releasing = lock.release();
    await settled();
    const keys = [store.take('release'), store.take('release')].map((release) => {
      release.reply({ kind: 'released' });
      return release.command.key;
    });
    expect(keys.sort()).toEqual(['a', 'b']);
    expect(await releasing).toBe(false);
    await scripted.nothingLeft();
  });

  it('outlives the shutdown of its process', async () => {
    const scripted = await startScripted();
    const { hold } = await scripted.held();
    scripted.engine.drain();
    await detached(scripted, hold);
    await scripted.engine.close(1_000);
    expect(await scripted.store.unanswered()).toEqual([]);
    expect(hold.signal.aborted).toBe(false);
  });
});

describe('locks.adopt()', () => {
  it('asks with a new token and the label of the lock, and holds it from the sending on', async () => {
    const scripted = await startScripted({ leaseMs: 10_000 });
    const { engine, store, clock } = scripted;
    const adopting = engine.adopt(text());
    const { command, ...asked } = await store.next('adopt');
    expect(command).toMatchObject({ key: KEY, token: TOKEN, leaseMs: 10_000, used: 7 });
    expect(command.newToken).toMatch(/^a{32}:\d+:job$/);
    await clock.advance(400);
    asked.reply(granted(command.newToken, 8, 1));
    const lock = await adopting;
    expect([lock.key, lock.fencingToken, lock.label]).toEqual([KEY, 8, 'job']);
    expect(lock.remainingMs()).toBe(10_000 - 100 - 400);
    const releasing = lock.release();
    const release = await store.next('release');
    expect(release.command.token).toBe(command.newToken);
    release.reply({ kind: 'released' });
    expect(await releasing).toBe(true);
    await scripted.nothingLeft();
  });

  it('runs work under it, which calls inside join, and tells it of a loss', async () => {
    const scripted = await startScripted();
    const { engine, store } = scripted;
    const working = engine.withAdopted(text(), { label: 'other' }, async (lock) => {
      await engine.withLock(KEY, {}, () => engine.assertHeld(KEY));
      const { signal } = lock;
      const { newToken: token } = command;
      store.listener.message({ kind: 'revoked', key: KEY, token });
      expect(signal.reason).toMatchObject({ reason: 'revoked' });
      return 'done';
    });
    const { command, ...asked } = await store.next('adopt');
    expect(command.newToken).toMatch(/:other$/);
    asked.reply(granted(command.newToken));
    (await store.next('release')).reply({ kind: 'lost' });
    expect(await working).toBe('done');
    await scripted.nothingLeft();
  });

  it('refuses once and for all what the store no longer has, and never takes the key anew', async () => {
    const scripted = await startScripted();
    const { engine, store } = scripted;
    const refused = engine.withAdopted(text(), {}, () => {
      throw new Error('it was not adopted');
    });
    (await store.next('adopt')).reply({ kind: 'lost' });
    await expect(refused).rejects.toThrow(LockNotAdoptedError);

    // The answer has taken so long that the lease must be confirmed, and it has ended meanwhile.
    const late = engine.adopt(text(), { leaseMs: 1_000 });
    const { command, ...asked } = await store.next('adopt');
    await scripted.clock.advance(700);
    asked.reply(granted(command.newToken));
    (await store.next('renew')).reply({ kind: 'lost' });
    const again = await store.next('adopt');
    expect(again.command.token).toBe(TOKEN);
    again.reply({ kind: 'lost' });
    await expect(late).rejects.toThrow(LockNotAdoptedError);
    await scripted.nothingLeft();
  });

  it('takes back what it may have got if the store does not answer', async () => {
    const scripted = await startScripted();
    const { engine, store } = scripted;
    const adopting = engine.adopt(text());
    const { command, ...asked } = await store.next('adopt');
    asked.reply(unknown);
    await expect(adopting).rejects.toThrow(LockStoreError);
    const leave = await store.next('leave');
    expect(leave.command).toMatchObject({ key: KEY, tokens: [command.newToken] });
    leave.reply({ kind: 'left' });
    await scripted.nothingLeft();

    const second = engine.adopt(text());
    (await store.next('adopt')).reply({ ...unknown, neverRan: true });
    await expect(second).rejects.toThrow(LockStoreError);
    await scripted.nothingLeft(); // it can still be adopted
  });

  it('stands beside the calls that wait here, which get the key from the store', async () => {
    const scripted = await startScripted();
    const { engine, store } = scripted;
    const waiting = await scripted.waiting();
    const adopting = engine.adopt(text());
    const { command, ...asked } = await store.next('adopt');
    asked.reply(granted(command.newToken, 50, 1));
    const lock = await adopting;
    const releasing = lock.release();
    const release = await store.next('release');
    expect(release.command.token).toBe(command.newToken);
    release.reply({ kind: 'released' });
    await releasing;
    scripted.grant(waiting.token, 51);
    expect((await waiting.hold).fencingToken).toBe(51);
  });

  it('of several keys stops at the first that it does not get, and releases the others', async () => {
    const scripted = await startScripted();
    const { engine, store } = scripted;
    const other = TOKEN.replace('1000', '1001');
    const given = text([
      ['b', other, 8],
      ['a', TOKEN, 7],
    ]);
    const adopting = engine.adopt(given);
    const first = await store.next('adopt');
    expect(first.command.key).toBe('a'); // in the same order everywhere
    first.reply(granted(first.command.newToken));
    (await store.next('adopt')).reply({ kind: 'lost' });
    await expect(adopting).rejects.toMatchObject({ code: 'LOCK_NOT_ADOPTED', key: 'b' });
    const release = await store.next('release');
    expect(release.command).toMatchObject({ key: 'a', token: first.command.newToken });
    release.reply({ kind: 'released' });
    await scripted.nothingLeft();

    const three = engine.adopt(text([...['c', 'b', 'a'].map((key) => [key, TOKEN, 7])]));
    const adopted = await store.next('adopt');
    adopted.reply(granted(adopted.command.newToken));
    (await store.next('adopt')).reply({ kind: 'lost' });
    await expect(three).rejects.toMatchObject({ code: 'LOCK_NOT_ADOPTED', key: 'b' });
    const keys = [];
    for (const token of [adopted.command.newToken, TOKEN]) {
      const one = await store.next('release');
      expect(one.command.token).toBe(token);
      keys.push(one.command.key);
      one.reply({ kind: 'released' });
    }
    expect(keys).toEqual(['a', 'c']); // the last one had not been asked for
    await scripted.nothingLeft();

    const none = engine.adopt(text([...['b', 'a'].map((key) => [key, TOKEN, 7])]));
    (await store.next('adopt')).reply({ kind: 'lost' });
    await expect(none).rejects.toMatchObject({ key: 'a' });
    expect(await store.unanswered()).toEqual([]); // somebody else may have adopted the first

    const both = engine.adopt(given, { renew: false });
    for (const key of ['a', 'b']) {
      const adopt = await store.next('adopt');
      expect(adopt.command.key).toBe(key);
      adopt.reply(granted(adopt.command.newToken));
    }
    (await store.next('renew')).reply(renewed); // a fixed lease begins with its whole length
    (await store.next('renew')).reply(renewed);
    expect((await both).keys).toEqual(['a', 'b']);
  });

  it('refuses any other text at once, and that of another keyPrefix', async () => {
    const { engine, store } = await startScripted();
    const ours = text();
    const wrong: unknown[] = [
      undefined,
      '',
      KEY,
      'lock1.',
      'lock1.eyJ9',
      ours.slice(0, -3),
      `lock2.${ours.slice(6)}`,
      text([]),
      text([[KEY, TOKEN]]),
      text([[KEY, 'somebody', 7]]),
      text([[KEY, `${'b'.repeat(32)}:1000s`, 7]]),
      text([['', TOKEN, 7]]),
      text([[KEY, TOKEN, 2 ** 52 + 1]]),
      text([
        [KEY, TOKEN, 7],
        [KEY, TOKEN, 7],
      ]),
    ];
    for (const one of wrong) {
      await expect(engine.adopt(one as string)).rejects.toThrow(/is not what lock.detach\(\)/);
    }
    await expect(engine.adopt(text(undefined, 'other:'))).rejects.toThrow(
      /detached with keyPrefix 'other:', and this service has 'lock:'/,
    );
    for (const options of [{ waitMs: 5 }, { holdAtLeastMs: 5 }, { mode: 'shared' }, { leaseMs: 1 }])
      await expect(engine.adopt(ours, options)).rejects.toThrow(LockConfigError);
    expect(await store.unanswered()).toEqual([]);
  });

  it('is refused during the shutdown, so that another process can adopt', async () => {
    const { engine, store } = await startScripted();
    engine.drain();
    await expect(engine.adopt(text())).rejects.toThrow(LockAbortedError);
    expect(await store.unanswered()).toEqual([]);
  });

  it('is detached again like any other lock', async () => {
    const scripted = await startScripted();
    const { engine, store } = scripted;
    const adopting = engine.adopt(text());
    const { command, ...asked } = await store.next('adopt');
    asked.reply(granted(command.newToken, 9));
    const given = await detached(scripted, await adopting);
    expect(contentOf(given)).toEqual(['lock:', [KEY, command.newToken, 9]]);
  });
});
