/** `maxWaiters`: a key that is stuck does not keep every request of a process in memory. */
import { describe, expect, it } from '@jest/globals';
import {
  LockNotAcquiredError,
  LockQueueFullError,
} from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { eventually } from '../support/eventually.js';
import { openLocks } from '../support/open-locks.js';
import { useRedis } from '../support/shared-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const redis = useRedis();
const WAIT_MS = 60_000;

async function start(maxWaiters?: number) {
  const key = uniqueKey();
  const [stuck, busy] = await Promise.all([
    openLocks(redis.url),
    openLocks(redis.url, { waitMs: WAIT_MS, ...(maxWaiters && { maxWaiters }) }),
  ]);
  const lock = await stuck.engine.acquire(key, { label: 'nightly report' });
  return { key, lock, stuck: stuck.engine, ...busy };
}

/** How a call ends that must not wait. */
async function refusal(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => 'it got in',
    (error: unknown) => error,
  );
}

describe('maxWaiters', () => {
  it('does not count single tries whose answer is awaited', async () => {
    const { engine, store } = await start(1);
    const key = uniqueKey();
    const tries = [1, 2, 3].map(() => engine.tryAcquire(key));
    const waiting = engine.withLock(key, {}, () => 'its turn');
    const [held, ...others] = await Promise.all(tries);
    expect(others).toEqual([null, null]);
    await held?.release();
    expect(await waiting).toBe('its turn');
    await eventually(async () => expect(await store.inspector.inspect(key)).toBeUndefined());
  });

  it('refuses a call beyond it at once, and names the holder; the others get their turns', async () => {
    const { key, lock, engine, store } = await start(3);
    const turns: number[] = [];
    const waiting = [1, 2, 3].map((turn) =>
      engine.withLock(key, {}, async () => void turns.push(turn)),
    );
    const error = await refusal(engine.withLock(key, {}, () => {}, 'StockService.take'));

    expect(error).toBeInstanceOf(LockQueueFullError);
    expect(error).not.toBeInstanceOf(LockNotAcquiredError);
    expect(error).toMatchObject({
      code: 'LOCK_QUEUE_FULL',
      key,
      holder: { pid: process.pid, label: 'nightly report' },
      message: expect.stringMatching(
        new RegExp(
          `^Lock '${key}' was not requested: 3 calls of this process wait for it already, and maxWaiters is 3; try again later, or set a higher one; the holder is process ${process.pid} on .*, 'nightly report'; requested by StockService.take$`,
        ),
      ),
    });
    expect(turns).toEqual([]);

    await lock.release();
    await Promise.all(waiting);
    expect(turns).toEqual([1, 2, 3]);
    await engine.withLock(key, {}, () => {});
    await eventually(async () => expect(await store.inspector.inspect(key)).toBeUndefined());
  });

  it('is without limit unless it is set, and a call may set its own', async () => {
    const { key, lock, engine } = await start();
    const waiting = Array.from({ length: 200 }, () => engine.withLock(key, {}, () => 'in'));
    const message = expect.stringContaining('200 calls of this process wait for it already');
    for (const maxWaiters of [1, 200])
      expect(await refusal(engine.acquire(key, { maxWaiters }))).toMatchObject({ message });
    const one = engine.withLock(key, { maxWaiters: 201 }, () => 'in');
    await lock.release();
    expect(new Set(await Promise.all([...waiting, one]))).toEqual(new Set(['in']));
  });

  it('counts what waits for one key in one process, and not who holds it, joins it or tries once', async () => {
    const { key, lock, engine, stuck } = await start(1);
    const waiting = engine.withLock(key, {}, () => engine.withLock(key, {}, () => 'joined'));
    expect(await engine.tryAcquire(key)).toBeNull();
    expect(await refusal(engine.acquire(key, { waitMs: 0 }))).toBeInstanceOf(LockNotAcquiredError);
    const other = stuck.acquire(key, { waitMs: WAIT_MS, maxWaiters: 1 });
    expect(await engine.withLock(uniqueKey(), {}, () => 'another key')).toBe('another key');
    await lock.release();
    expect(await (await other).release()).toBe(true); // it is of the process that had it
    expect(await waiting).toBe('joined');
  });

  it('lets the next call wait when one has given up', async () => {
    const { key, lock, engine } = await start(1);
    const leaves = new AbortController();
    const left = refusal(engine.acquire(key, { signal: leaves.signal }));
    expect(await refusal(engine.acquire(key))).toMatchObject({
      message: expect.stringContaining('one call of this process waits for it already'),
    });
    leaves.abort();
    expect(await left).toMatchObject({ code: 'LOCK_ABORTED' });
    const next = engine.acquire(key);
    await lock.release();
    expect(await (await next).release()).toBe(true);
  });

  it('is no answer to who has the key, so onBusy and tryAcquire do not take it for one', async () => {
    const { key, lock, engine } = await start(1);
    const waiting = engine.withLock(key, {}, () => 'in');
    const onBusy = (): string => 'instead';
    for (const call of [
      engine.withLock(key, { onBusy: 'skip' }, () => {}),
      engine.withLock(key, { onBusy }, () => 'in'),
      engine.tryAcquire(key, { waitMs: 100 }),
      engine.withLock([uniqueKey(), key], {}, () => {}),
    ])
      expect(await refusal(call)).toMatchObject({ code: 'LOCK_QUEUE_FULL', key });
    await lock.release();
    expect(await waiting).toBe('in');
  });

  it.each([0, -1, 1.5, NaN, '3'])('may not be %p', async (maxWaiters) => {
    const { engine } = await openLocks(redis.url);
    expect(
      String(await refusal(engine.acquire('k', { maxWaiters: maxWaiters as number }))),
    ).toMatch(
      /^LockConfigError: Invalid option maxWaiters: .* must be a whole number of at least 1 \(calls; Infinity = no limit\)/,
    );
  });
});
