import { describe, expect, it } from '@jest/globals';
import { ringOf } from '../../libs/nestjs-locked/src/core/deadlocks/deadlock-message.js';
import { describedHolder } from '../../libs/nestjs-locked/src/core/engine/holder-lookup.js';
import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import type { LockRecord } from '../../libs/nestjs-locked/src/core/store/lock-inspector.js';
import { Locked } from '../../libs/nestjs-locked/src/nest/decorator/locked.decorator.js';
import { InMemoryLockStore } from '../../libs/nestjs-locked/src/testing/in-memory-lock-store.js';
import { InMemoryLocks } from '../../libs/nestjs-locked/src/testing/in-memory-locks.js';
import { TestLocks } from '../../libs/nestjs-locked/src/testing/test-locks.js';
import { withTestLocks } from '../../libs/nestjs-locked/src/testing/with-test-locks.js';
import { FakeClock, settled } from '../support/fake-clock.js';
import { makeGate } from '../support/gate.js';
import { KEY, startScripted } from '../support/scripted-engine.js';
import { queued } from '../support/scripted-store.js';

type Inspect = (key: string) => Promise<LockRecord | undefined>;

/** A holder, and a waiter that asks who holds the lock as the test says. */
async function start(inspect?: (real: Inspect) => Inspect) {
  const clock = new FakeClock();
  const locks = new InMemoryLocks(clock);
  const asked: string[] = [];
  const engineOn = (store: InMemoryLockStore): LockEngine =>
    new LockEngine({ store, options: resolveServiceOptions({}), report: () => {}, clock });
  const waiterStore = new InMemoryLockStore(locks, 30_000);
  const real: Inspect = waiterStore.inspect.bind(waiterStore);
  waiterStore.inspect = (key) => {
    asked.push(key);
    return (inspect?.(real) ?? real)(key);
  };
  const holder = new InMemoryLockStore(locks, 30_000);
  const held = await engineOn(holder).acquire('k', { label: 'nightly report' });
  return { clock, asked, held, processId: holder.processId, waiter: engineOn(waiterStore) };
}

const never = (): Promise<never> => new Promise(() => {});
const BUSY =
  /^Lock 'k' was not acquired within 400 ms: somebody else holds it; try again later, or set a longer waitMs$/;

describe('a wait that ended because somebody else holds the lock', () => {
  it('names the holder in the error and its message', async () => {
    const { clock, waiter, processId } = await start();
    const call = waiter.acquire('k', { waitMs: 400 });
    const refused = expect(call).rejects.toMatchObject({
      code: 'LOCK_NOT_ACQUIRED',
      waitedMs: 400,
      holder: { processId, pid: process.pid, label: 'nightly report' },
      message: expect.stringMatching(
        new RegExp(
          `set a longer waitMs; the holder is process ${process.pid} on \\S+, 'nightly report'$`,
        ),
      ),
    });
    await clock.advance(400);
    await refused;
  });

  it('asks again for the next wait, because somebody else may have it by then', async () => {
    const { clock, asked, waiter } = await start();
    for (let wait = 1; wait <= 2; wait++) {
      const refused = expect(waiter.acquire('k', { waitMs: 400 })).rejects.toThrow(
        /nightly report/,
      );
      await clock.advance(400);
      await refused;
      expect(asked).toHaveLength(wait);
    }
  });

  it('also passes the holder to the function in onBusy', async () => {
    const { clock, waiter } = await start();
    const call = waiter.withLock(
      'k',
      { waitMs: 400, onBusy: ({ holder }) => holder?.label },
      () => 'ran',
    );
    await clock.advance(400);
    expect(await call).toBe('nightly report');
  });

  it('asks once for all waits that end together', async () => {
    const answered = makeGate();
    const { clock, waiter, asked } = await start((real) => async (key) => {
      await answered.opened;
      return real(key);
    });
    const calls = Array.from({ length: 10 }, () => waiter.acquire('k', { waitMs: 400 }));
    const answers = Promise.allSettled(calls);
    await clock.advance(400);
    await settled(); // a wait may end a turn of the event loop later than another one
    answered.open();
    const holders = (await answers).map(
      (answer) => answer.status === 'rejected' && (answer.reason as { holder?: object }).holder,
    );
    expect(holders).toEqual(calls.map(() => expect.objectContaining({ pid: process.pid })));
    expect(asked).toEqual(['k']);
  });

  it('ends 250 ms later if the store does not say who it is', async () => {
    const { clock, waiter } = await start(() => never);
    let answer: unknown;
    waiter.acquire('k', { waitMs: 400 }).catch((error: unknown) => (answer = error));
    await clock.advance(649);
    expect(answer).toBeUndefined();
    await clock.advance(1);
    expect(answer).toMatchObject({
      code: 'LOCK_NOT_ACQUIRED',
      message: expect.stringMatching(BUSY),
    });
    expect(answer).toMatchObject({ holder: undefined });
  });

  it.each<[string, Inspect]>([
    ['fails', () => Promise.reject(new Error('Redis has gone'))],
    ['knows nobody', async () => undefined],
  ])('ends at once if the store %s', async (_, inspect) => {
    const { clock, waiter } = await start(() => inspect);
    const call = waiter.acquire('k', { waitMs: 400 });
    const refused = expect(call).rejects.toThrow(BUSY);
    await clock.advance(400);
    await refused;
    expect(waiter.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });

  it('does not name a client of another kind', async () => {
    const { clock, waiter } = await start((real) => async (key) => {
      const record = await real(key);
      return record && { ...record, value: 'redis-py', holders: [] };
    });
    const call = waiter.acquire('k', { waitMs: 400 });
    const refused = expect(call).rejects.toMatchObject({ holder: undefined });
    await clock.advance(400);
    await refused;
  });
});

it('the question for the holder does not delay the error beyond the second that an answer may take', async () => {
  const { clock, store, engine } = await startScripted();
  Object.assign(store.inspector, { inspect: never });
  let isOver = false;
  const call = engine.acquire(KEY, { waitMs: 100 }).catch((error: unknown) => {
    isOver = true;
    return error;
  });
  const ask = await store.next('acquire');
  await clock.advance(1_050);
  ask.reply(queued(ask.command.token));
  await clock.advance(40);
  expect(isOver).toBe(false);
  await clock.advance(10);
  expect(isOver).toBe(true);
  expect(await call).toMatchObject({ code: 'LOCK_NOT_ACQUIRED', waitedMs: 1_050 });
});

it('a call that gets the lock, tries once or skips does not ask for the holder', async () => {
  const { clock, waiter, asked, held } = await start();
  expect(await waiter.tryAcquire('k')).toBeNull();
  const patient = waiter.tryAcquire('k', { waitMs: 400 });
  const skipped = waiter.withLock('k', { waitMs: 400, onBusy: 'skip' }, () => 'ran');
  await expect(waiter.acquire('k', { waitMs: 0 })).rejects.toThrow(
    /holds it; try again later, or set a waitMs$/,
  );
  await clock.advance(400);
  expect(await patient).toBeNull();
  expect(await skipped).toBeUndefined();
  await held.release();
  await settled();
  await (await waiter.acquire('k', { waitMs: 400 })).release();
  expect(asked).toEqual([]);
});

describe('the error of a wait that ended', () => {
  it.each([0, 50])('has the frames of its caller in its stack, after %i ms', async (waitMs) => {
    const locks = new TestLocks().service();
    const held = await locks.acquire('k');
    async function checkOut(): Promise<void> {
      await locks.withLock('k', { waitMs }, () => {});
    }
    const error = (await checkOut().catch((reason: unknown) => reason)) as Error;
    expect(error.stack).toMatch(/\bcheckOut\b/);
    await held.release();
  });

  it('names the method that asked, and has the frames of its caller', async () => {
    class Stock {
      @Locked('k', { waitMs: 20 })
      async take(): Promise<void> {}
    }
    const locks = new TestLocks();
    const stock = withTestLocks(new Stock(), locks);
    const held = await locks.service().acquire('k');
    async function checkOut(): Promise<void> {
      await stock.take();
    }
    const error = (await checkOut().catch((reason: unknown) => reason)) as Error;
    expect(error.message).toMatch(/somebody else holds it; .+; requested by Stock\.take$/);
    expect(error.stack).toMatch(/\bcheckOut\b/);
    await held.release();
  });
});

it('what other processes say of themselves stays on its line', () => {
  const holder = { processId: 'f', host: 'a\nb', pid: 1, label: 'c\u001b[2J' };
  expect(describedHolder(holder)).toBe("process 1 on a\\u000ab, 'c\\u001b[2J'");
  const wait = { ...holder, id: '1', key: 'k', since: new Date(), holds: ['h'] };
  expect(ringOf([wait])).toContain("'c\\u001b[2J' in process 1 on a\\u000ab holds 'h'");
});
