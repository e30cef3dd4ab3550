/** The wall clock has gained on the monotonic one: the machine may have slept, or the clock was set. */
import { describe, expect, it } from '@jest/globals';
import { LockCommitUnknownError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type { LockOptions } from '../../libs/nestjs-locked/src/core/lock.options.js';
import { SuspendDetector } from '../../libs/nestjs-locked/src/core/time/suspend-detector.js';
import { inMemoryEngine } from '../../libs/nestjs-locked/src/testing/in-memory-engine.js';
import { InMemoryLocks } from '../../libs/nestjs-locked/src/testing/in-memory-locks.js';
import { FakeClock, settled } from '../support/fake-clock.js';
import { makeGate } from '../support/gate.js';
import { KEY, startScripted } from '../support/scripted-engine.js';
import { granted, unknown } from '../support/scripted-store.js';

const SLEPT_MS = 600_000;
const IN_DOUBT = new LockCommitUnknownError('in doubt', KEY);
const renewed = { kind: 'renewed', blockEnd: 2_000_000, waiters: 0 } as const;

type Scene = Awaited<ReturnType<typeof startScripted>>;

/** A call that holds the key, and runs the commands of the test under it. */
async function holding({ store, engine }: Scene, options: LockOptions = {}) {
  const mayGoOn = makeGate();
  let nested: () => Promise<unknown> = () => Promise.resolve();
  const call = engine.withLock(KEY, options, async (lock) => {
    await mayGoOn.opened;
    const result = await nested();
    return { lock, result };
  });
  const ask = await store.next('acquire');
  ask.reply(granted(ask.command.token));
  await settled();
  const run = (work: () => Promise<unknown>): void => {
    nested = work;
    mayGoOn.open();
  };
  return { call, run, token: ask.command.token };
}

describe('while a lease is suspect', () => {
  it('a nested call waits for the confirmation, and joins [D18]', async () => {
    const scene = await startScripted();
    const { clock, store, engine } = scene;
    const { call, run } = await holding(scene);
    clock.stepWall(SLEPT_MS);
    let order = '';
    run(async () => {
      expect(engine.current(KEY)).toBeDefined();
      const inner = await engine.withLock(KEY, { waitMs: Infinity }, (lock) => {
        order += 'joined';
        return lock.isHeld;
      });
      return inner;
    });
    await clock.advance(0);
    const renewal = await store.next('renew');
    expect(await store.unanswered()).toEqual([]); // no second request for the key
    order += 'confirmed ';
    renewal.reply(renewed);
    await settled();
    (await store.next('release')).reply({ kind: 'released' });
    expect((await call).result).toBe(true);
    expect(order).toBe('confirmed joined');
  });

  it('a nested call waits for the confirmation even if its process has stood still meanwhile', async () => {
    const scene = await startScripted();
    const { clock, store, engine } = scene;
    const { call, run } = await holding(scene);
    clock.stepWall(SLEPT_MS);
    run(() => {
      const inner = engine.withLock(KEY, { waitMs: 0 }, (lock) => lock.isHeld);
      clock.block(1_200); // in the same turn
      return inner;
    });
    await settled();
    await clock.advance(0);
    const renewal = await store.next('renew');
    await clock.advance(10);
    renewal.reply(renewed);
    await settled();
    (await store.next('release')).reply({ kind: 'released' });
    expect((await call).result).toBe(true);
  });

  it('a nested call takes the key again if the store says that it was lost', async () => {
    const scene = await startScripted();
    const { clock, store, engine } = scene;
    const { run, call } = await holding(scene);
    clock.stepWall(SLEPT_MS);
    run(() => engine.withLock(KEY, {}, (lock) => Promise.resolve(lock.fencingToken)));
    await clock.advance(0);
    (await store.next('renew')).reply({ kind: 'lost' });
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token, 900));
    await settled();
    (await store.next('release')).reply({ kind: 'released' });
    await settled();
    for (const left of await store.unanswered()) expect(left).toBe('release');
    (await store.next('release')).reply({ kind: 'released' });
    expect((await call).result).toBe(900);
  });

  it.each([0, 300])(
    'a nested call fails as unknown if the store is silent: waitMs %i',
    async (waitMs) => {
      const scene = await startScripted();
      const { clock, engine } = scene;
      const { run, call } = await holding(scene);
      const failed = expect(call).rejects.toMatchObject({ code: 'LOCK_STORE_FAILED', key: KEY });
      clock.stepWall(SLEPT_MS);
      run(() => engine.withLock(KEY, { waitMs }, () => {}));
      await clock.advance(waitMs + 1_100);
      (await scene.store.next('renew')).reply(unknown);
      (await scene.store.next('release')).reply({ kind: 'released' });
      await failed;
    },
  );

  it('a nested call can be aborted', async () => {
    const scene = await startScripted();
    const { clock, engine, store } = scene;
    const { run, call } = await holding(scene);
    const failed = expect(call).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    clock.stepWall(SLEPT_MS);
    const abort = new AbortController();
    run(async () => {
      await engine.acquire(KEY, { waitMs: Infinity, signal: abort.signal });
    });
    await clock.advance(100);
    abort.abort();
    await settled();
    await store.next('renew');
    (await store.next('release')).reply({ kind: 'released' });
    await failed;
  });

  it('a lock claims nothing false', async () => {
    const { clock, store, engine, held } = await startScripted();
    const { hold } = await held();
    clock.stepWall(SLEPT_MS);
    expect(hold.remainingMs()).toBe(0); // nothing is certain
    const unknownInWork = { code: 'LOCK_STORE_FAILED', workBegan: true };
    expect(() => hold.assertHeld()).toThrow(expect.objectContaining(unknownInWork));
    const ran = hold.run(() => Promise.resolve('ran'));
    await clock.advance(0);
    (await store.next('renew')).reply(renewed);
    expect(await ran).toBe('ran');
    hold.assertHeld();
    expect(hold.signal.aborted).toBe(false);
    expect(engine.residue.queues).toBe(1);
  });

  it('`ensureRemaining` does not fail if the store does not answer, and enough is certainly left', async () => {
    const { clock, store, held } = await startScripted();
    const { hold } = await held();
    await clock.advance(1);
    clock.stepWall(10_000);
    expect(hold.remainingMs()).toBeGreaterThan(5_000);
    const ensured = hold.ensureRemaining(5_000);
    for (let i = (await store.unanswered()).length; i > 0; i--)
      (await store.next('renew')).reply(unknown);
    await ensured;
    expect(hold.remainingMs()).toBeGreaterThan(5_000);
  });

  it('`ensureRemaining` asks again if the clock was stepped while it was confirmed', async () => {
    const { clock, store, held } = await startScripted();
    const { hold } = await held();
    const ensured = hold.ensureRemaining(30_000);
    const first = await store.next('renew');
    await clock.advance(1);
    clock.stepWall(SLEPT_MS);
    expect(hold.isHeld).toBe(false);
    await clock.advance(1);
    first.reply(renewed); // sent before
    await settled();
    for (let i = (await store.unanswered()).length; i > 0; i--)
      (await store.next('renew')).reply(renewed);
    await ensured;
    expect(hold.isHeld).toBe(true);
  });
});

describe('a lease that was requested before the machine may have slept', () => {
  it('is confirmed before a call gets it', async () => {
    const { clock, store, engine } = await startScripted();
    const call = engine.acquire(KEY, { waitMs: 60_000 });
    const ask = await store.next('acquire');
    await clock.advance(10);
    clock.stepWall(SLEPT_MS);
    await clock.advance(1_500); // it is noticed before the answer is read
    ask.reply(granted(ask.command.token));
    const renewal = await store.next('renew');
    await clock.advance(10);
    renewal.reply(renewed);
    expect((await call).isHeld).toBe(true);
  });
});

describe('the length of a lease', () => {
  it('that was ensured is not trusted after a suspend that the store does not know of', async () => {
    const { clock, store, held } = await startScripted();
    const { hold } = await held();
    const ensured = hold.ensureRemaining(200_000);
    (await store.next('renew')).reply(renewed);
    await ensured;
    await clock.advance(1);
    clock.stepWall(190_000);
    expect(hold.remainingMs()).toBeLessThanOrEqual(30_000);
    await clock.advance(1);
    const renewal = await store.next('renew');
    // The store is asked for as much as we believed was left.
    expect(renewal.command.leaseMs).toBeGreaterThan(200_000);
    renewal.reply(renewed);
    await settled();
    expect(hold.remainingMs()).toBeGreaterThanOrEqual(199_990);
  });
});

describe('a fixed lease', () => {
  it('lasts as long as it would have without the suspicion', async () => {
    const { clock, store, held } = await startScripted();
    const { hold } = await held({ renew: false, leaseMs: 20_000 });
    const endsInMs = hold.remainingMs();
    for (let ms = 0; ms < 5_000; ms += 100) {
      clock.stepWall(SLEPT_MS);
      hold.remainingMs();
      await clock.advance(100);
      for (let i = (await store.unanswered()).length; i > 0; i--)
        (await store.next('renew')).reply(renewed);
      await settled();
    }
    await clock.advance(100);
    for (let i = (await store.unanswered()).length; i > 0; i--)
      (await store.next('renew')).reply(renewed);
    await settled();
    expect(hold.remainingMs()).toBeGreaterThan(endsInMs - 5_100 - 100);
    expect(hold.remainingMs()).toBeLessThanOrEqual(endsInMs - 5_100);
  });
});

describe('a sleep that is too short for a suspicion', () => {
  it('is deducted from the time that is left, even after the next renewal', async () => {
    const { clock, store, held } = await startScripted();
    const { hold } = await held();
    const ensured = hold.ensureRemaining(200_000);
    (await store.next('renew')).reply(renewed);
    await ensured;
    const before = hold.remainingMs();
    await clock.advance(1);
    clock.stepWall(900);
    expect(hold.remainingMs()).toBe(before - 901);
    await clock.advance(9_999);
    (await store.next('renew')).reply(renewed);
    await settled();
    expect(hold.remainingMs()).toBe(before - 10_900);
  });

  it('sends nothing, and costs no lease that lingers', async () => {
    const { clock, store, engine, held } = await startScripted({ lingerMs: 20_000 });
    const { hold } = await held();
    await hold.release();
    clock.stepWall(900);
    const next = engine.acquire(KEY);
    await clock.advance(1_000);
    expect(await store.unanswered()).toEqual([]);
    expect((await next).isHeld).toBe(true);
  });
});

describe('a suspend is noticed', () => {
  it('within a second, and the answer to the renewal decides', async () => {
    const { clock, store, held } = await startScripted();
    const { hold } = await held();
    await clock.advance(300);
    clock.stepWall(SLEPT_MS);
    await clock.advance(1_000);
    (await store.next('renew')).reply({ kind: 'lost' });
    await settled();
    expect(hold.signal.reason).toMatchObject({ code: 'LOCK_LOST' });
  });

  it('even if it comes in small pieces', async () => {
    const { clock, store, held } = await startScripted();
    const { hold } = await held();
    for (let i = 0; i < 9; i++) {
      clock.stepWall(150);
      await clock.advance(100);
      hold.remainingMs();
    }
    expect(hold.remainingMs()).toBeLessThanOrEqual(29_700 - 900 - 9 * 150);
    await clock.advance(0);
    expect(await store.unanswered()).toContain('renew');
  });

  it('and a clock that is set back hides none', () => {
    const clock = new FakeClock();
    const detector = new SuspendDetector(clock);
    clock.stepWall(-60_000);
    expect(detector.look()).toBeUndefined();
    clock.stepWall(50_000);
    expect(detector.look()?.ms).toBe(50_000);
    clock.stepWall(-50_000);
    expect(detector.look()).toBeUndefined();
    expect(detector.stepsAfter(0)).toHaveLength(1);
  });

  it('however many there are', () => {
    const clock = new FakeClock();
    const detector = new SuspendDetector(clock);
    for (let i = 0; i < 1_000; i++) {
      clock.stepWall(10);
      detector.look();
    }
    const steps = detector.stepsAfter(0);
    expect(steps.length).toBeLessThan(100);
    expect(steps.reduce((total, { ms }) => total + ms, 0)).toBe(10_000);
  });
});

describe('a clock that is set, with a store that answers', () => {
  it.each([
    ['forward', {}, [3_600_000]],
    ['back', {}, [-3_600_000]],
    ['forward and back', {}, [3_600_000, -3_600_000, 100_000]],
    ['again and again', {}, Array.from({ length: 20 }, () => 40_000)],
    ['under a fixed lease', { renew: false }, [60_000, 60_000]],
  ])('%s: nested calls join, several keys are taken', async (_what, options, steps) => {
    const clock = new FakeClock();
    const locks = new InMemoryLocks(clock);
    const [engine, other] = [1, 2].map(() => inMemoryEngine({ lingerMs: 500 }, locks));
    let aborted = false;
    const call = engine!.withLock('a', options, async (lock) => {
      lock.signal.addEventListener('abort', () => (aborted = true));
      for (const step of steps) {
        clock.stepWall(step);
        await engine!.withLock('a', { waitMs: Infinity }, (inner) => inner.assertHeld());
        clock.stepWall(step);
        await engine!.withLock(['a', 'b'], { waitMs: 5_000 }, (both) => both.assertHeld());
        clock.stepWall(step);
        await lock.run(() => Promise.resolve());
        await lock.ensureRemaining(1);
      }
    });
    const waiting = other!.acquire('a', { waitMs: Infinity });
    for (let i = 0; i < 100; i++) await clock.advance(50);
    await call;
    expect(aborted).toBe(false);
    expect((await waiting).isHeld).toBe(true);
  });
});

describe('a lease whose transaction has an unknown outcome', () => {
  it('is not renewed, even if the answer to its last renewal says nothing about a suspend since', async () => {
    const { clock, store, held } = await startScripted();
    const { hold } = await held();
    await clock.advance(10_000);
    const renewal = await store.next('renew');
    hold.holds[0]?.commitUnknown(IN_DOUBT);
    clock.stepWall(SLEPT_MS);
    await clock.advance(1_000);
    renewal.reply(renewed);
    await clock.advance(10_000);
    expect(await store.unanswered()).toEqual([]);
  });

  it('keeps nobody waiting for a confirmation once its call has ended', async () => {
    const { clock, held } = await startScripted();
    const { hold } = await held();
    hold.holds[0]?.commitUnknown(IN_DOUBT);
    clock.stepWall(SLEPT_MS);
    const ran = hold.run(() => Promise.resolve()).catch((error: unknown) => error);
    await settled();
    void hold.release();
    await settled();
    const told = await Promise.race([ran, settled().then(() => 'still waiting')]);
    expect(told).toMatchObject({ code: 'LOCK_LOST' });
  });

  it('is not released because another process wants the key, however late a renewal was carried out [D19]', async () => {
    const scene = await startScripted({ leaseMs: 3_000 });
    const { clock, store, engine, wanted, nothingLeft } = scene;
    const { call, run, token } = await holding(scene);
    await clock.advance(1_000);
    const renewal = await store.next('renew'); // it may be carried out, but is not answered
    for (const hold of engine.inTransactions.heldHere()) hold.commitUnknown(IN_DOUBT);
    run(() => {
      for (const hold of engine.inTransactions.heldHere()) hold.commitUnknown(IN_DOUBT);
      return Promise.resolve();
    });
    await call;
    renewal.reply(unknown);
    for (let ms = 0; ms < 7_500; ms += 500) {
      wanted(token);
      expect(await store.unanswered()).toEqual([]);
      await clock.advance(500);
    }
    await clock.advance(5_000);
    await nothingLeft();
  });
});
