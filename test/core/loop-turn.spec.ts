import { describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type { Lock } from '../../libs/nestjs-locked/src/core/lock.js';
import { inMemoryEngine } from '../../libs/nestjs-locked/src/testing/in-memory-engine.js';
import { InMemoryLocks } from '../../libs/nestjs-locked/src/testing/in-memory-locks.js';
import { settled } from '../support/fake-clock.js';
import { makeGate } from '../support/gate.js';
import { KEY, startScripted } from '../support/scripted-engine.js';
import { granted } from '../support/scripted-store.js';
import { standStill } from '../support/stand-still.js';

/** Everything that is ready to run in this turn of the event loop has run. */
async function microtasks(): Promise<void> {
  for (let i = 0; i < 50; i++) await Promise.resolve();
}

function block(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

it('two leases of one key that become free in the same long turn are both given to a call [R17]', async () => {
  const { engine, store, wanted } = await startScripted({ lingerMs: 1_000 });
  const first = engine.acquire(KEY);
  const ask = await store.next('acquire');
  ask.reply(granted(ask.command.token));
  void (await first).release();
  await settled();

  // From here on, all happens in one turn, which is long.
  const second = engine.acquire(KEY);
  void (await second).release();
  await microtasks();
  block(10);
  const [third, fourth] = [engine.acquire(KEY), engine.acquire(KEY)]; // the lease lingers: its turn is awaited
  await microtasks();
  wanted(ask.command.token);
  store.take('release').reply({ kind: 'released' });
  const askAgain = store.take('acquire');
  askAgain.reply(granted(askAgain.command.token, 500));
  void (await third).release(); // the turn is awaited for the second lease, too

  const next = await Promise.race([fourth, sleep(2_000)]);
  expect(next?.fencingToken).toBe(501);
});

describe('a caller that tries again without a pause lets the event loop turn', () => {
  /**
   * Tries until the event loop has turned a few times. The limit is for a loop that does not turn: a busy machine does
   * not reach it.
   * @returns how often it has
   */
  async function turnsDuring(attempt: () => Promise<unknown>): Promise<number> {
    let turns = 0;
    const turn = (): void => {
      turns++;
      next = setImmediate(turn);
    };
    let next = setImmediate(turn);
    for (const end = performance.now() + 20_000; turns < 3 && performance.now() < end;)
      await attempt().catch(() => {});
    clearImmediate(next);
    return turns;
  }

  type Engine = Awaited<ReturnType<typeof startScripted>>['engine'];
  const attempts: [string, (engine: Engine) => Promise<unknown>][] = [
    ['tryAcquire', (engine) => engine.tryAcquire(KEY)],
    ['tryAcquire of two', (engine) => engine.tryAcquire([KEY, 'other'])],
    ['acquire', (engine) => engine.acquire(KEY, { waitMs: 0 })],
    ['withLock', (engine) => engine.withLock(KEY, { waitMs: 0 }, () => {})],
    ['skip', (engine) => engine.withLock(KEY, { waitMs: 0, onBusy: 'skip' }, () => {})],
    ['onBusy', (engine) => engine.withLock(KEY, { waitMs: 0, onBusy: () => 'busy' }, () => '')],
  ];
  const questions: [string, (engine: Engine) => Promise<unknown>][] = [
    ['ping', (engine) => engine.ping()],
    ['inspect', (engine) => engine.inspect(KEY)],
    ['list', (engine) => engine.list('*')[Symbol.asyncIterator]().next()],
    ['forceRelease', (engine) => engine.forceRelease(KEY)],
  ];

  it.each(attempts)('while its own process has the key: %s', async (_, attempt) => {
    const { engine, held } = await startScripted();
    await held();
    expect(await turnsDuring(() => attempt(engine))).toBe(3);
  });

  it.each(attempts)('while the store is away: %s', async (_, attempt) => {
    const { clock, engine, store } = await startScripted();
    store.listener.storeLost(new LockStoreError('the cable is out'));
    await clock.advance(2_000);
    expect(await turnsDuring(() => attempt(engine))).toBe(3);
  });

  it.each([...attempts, ...questions])('when the service has closed: %s', async (_, attempt) => {
    const { engine, store } = await startScripted();
    await engine.close(0);
    const closed = (): Promise<never> => Promise.reject(new LockStoreError('it is closed'));
    Object.assign(store.inspector, { ping: closed, inspect: closed, revoke: closed });
    store.inspector.list = async function* () {
      yield await closed();
    };
    expect(await turnsDuring(() => attempt(engine))).toBe(3);
  });

  it.each(attempts)('with a signal that has aborted: %s', async (_, attempt) => {
    const { engine } = await startScripted();
    const signal = AbortSignal.abort();
    const aborted: Pick<Engine, 'acquire' | 'tryAcquire' | 'withLock'> = {
      acquire: (keys, options) => engine.acquire(keys, { ...options, signal }),
      tryAcquire: (keys, options) => engine.tryAcquire(keys, { ...options, signal }),
      withLock: (keys, options, work) => engine.withLock(keys, { ...options, signal }, work),
    };
    expect(await turnsDuring(() => attempt(aborted as Engine))).toBe(3);
  });

  it.each<[string, (engine: Engine, lock: Lock) => Promise<unknown>]>([
    ['withLock of its key', (engine) => engine.withLock(KEY, {}, () => {})],
    ['acquire of its key', async (engine) => (await engine.acquire(KEY)).release()],
    ['tryAcquire of its key', async (engine) => (await engine.tryAcquire(KEY))?.release()],
    ['lock.run', (_, lock) => lock.run(() => {})],
    ['lock.ensureRemaining', (_, lock) => lock.ensureRemaining(1)],
  ])('under its own lock: %s', async (_, attempt) => {
    const { engine, store } = await startScripted();
    const counted = makeGate();
    const turns = engine.withLock(KEY, {}, (lock) =>
      turnsDuring(() => attempt(engine, lock)).finally(counted.open),
    );
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    await counted.opened;
    (await store.next('release')).reply({ kind: 'released' });
    expect(await turns).toBe(3);
  });

  it.each<[string, (lock: Lock) => Promise<unknown>]>([
    ['ensureRemaining', (lock) => lock.ensureRemaining(1)],
    ['run', (lock) => lock.run(() => {})],
  ])('with a lock that was lost: %s', async (_, attempt) => {
    const { clock, held } = await startScripted({ maxHoldMs: 1_000 });
    const { hold } = await held();
    await clock.advance(1_000);
    expect(hold.signal.aborted).toBe(true);
    expect(await turnsDuring(() => attempt(hold))).toBe(3);
  });

  it.each<[string, (engine: Engine) => Promise<unknown>]>([
    ['withLock', (engine) => engine.withLock(KEY, {}, () => {})],
    ['acquire', async (engine) => (await engine.acquire(KEY)).release()],
    ['tryAcquire', async (engine) => (await engine.tryAcquire(KEY))?.release()],
    ...questions,
  ])('of a store that answers in the same turn: %s', async (_, attempt) => {
    const engine = inMemoryEngine({}, new InMemoryLocks());
    await engine.open();
    expect(await turnsDuring(() => attempt(engine))).toBe(3);
    await engine.close(0);
  });

  it.each<[string, (engine: Engine, lock: Lock) => Promise<unknown>]>([
    ['lock.run', (engine, lock) => lock.run(() => engine.withLock(KEY, {}, () => {}))],
    ['withLock', (engine) => engine.withLock(KEY, {}, () => {})],
    ['acquire', async (engine) => (await engine.acquire(KEY)).release()],
    ['tryAcquire', async (engine) => (await engine.tryAcquire(KEY))?.release()],
  ])('but not before it has joined a hold that may end meanwhile: %s', async (_, call) => {
    const { engine, store } = await startScripted();
    let outcome: Promise<unknown> | undefined;
    const ended = engine.withLock(KEY, {}, async (lock) => {
      await lock.ensureRemaining(1); // asks how long this turn has lasted
      standStill(6);
      outcome = call(engine, lock).then(() => 'done');
    });
    const ask = await store.next('acquire');
    ask.reply(granted(ask.command.token));
    (await store.next('release')).reply({ kind: 'released' });
    await ended;
    expect(await outcome).toBe('done');
  });

  it('and is not told that a lock is ensured that was lost meanwhile', async () => {
    const { store, held } = await startScripted();
    const { hold, token } = await held();
    await hold.ensureRemaining(1); // asks how long this turn has lasted
    standStill(6);
    const ensured = hold.ensureRemaining(1);
    store.listener.message({ kind: 'revoked', key: KEY, token });
    await expect(ensured).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'revoked' });
  });

  it.each([
    ['release', (lock: Lock) => lock.release()],
    ['await using', async (lock: Lock) => lock[Symbol.asyncDispose]()],
  ])('while its release has failed: %s', async (_, end) => {
    const { clock, store, held } = await startScripted();
    const { hold } = await held();
    store.listener.storeLost(new LockStoreError('the cable is out'));
    await clock.advance(2_000);
    expect(await turnsDuring(() => end(hold))).toBe(3);
  });

  it('and is not held up each time', async () => {
    const { engine, held } = await startScripted();
    await held();
    let tries = 0;
    await turnsDuring(() => {
      tries++;
      return engine.tryAcquire(KEY);
    });
    expect(tries).toBeGreaterThan(6);
  });
});
