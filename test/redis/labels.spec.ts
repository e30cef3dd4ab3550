import { describe, expect, it } from '@jest/globals';
import type { LockInfo } from 'nestjs-locked';
import { eventually } from '../support/eventually.js';
import { openLocks } from '../support/open-locks.js';
import { useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const server = useRedisServer();

async function openTwo() {
  const [{ engine: a }, { engine: b }] = [await openLocks(server.url), await openLocks(server.url)];
  return { a, b };
}

describe('a label', () => {
  it.each([
    'StockService.take',
    "the 5% job: {1} of O'Neil",
    '%41 %zz 100%',
    'ночью 🌙',
    'no-break\u00a0spaces',
    'x'.repeat(200),
  ])('is shown to every process as it is: %s', async (label) => {
    const { a, b } = await openTwo();
    const key = uniqueKey();
    await a.withLock(key, { label }, async () => {
      for (const engine of [a, b])
        expect((await engine.inspect(key))?.holder).toMatchObject({ label });
      const busy = b.withLock(key, { waitMs: 50 }, () => {});
      await expect(busy).rejects.toMatchObject({ holder: { label } });
    });
    expect(await a.inspect(key)).toBeNull();
  });

  it('of the next process is shown when the lease was handed over to it', async () => {
    const { a, b } = await openTwo();
    const key = uniqueKey();
    const held = await a.acquire(key, { label: 'first' });
    const waiting = b.acquire(key, { label: 'second' });
    await eventually(async () => expect((await a.inspect(key))?.waiters).toBe(1));
    await held.release();
    const next = await waiting;
    for (const engine of [a, b])
      expect((await engine.inspect(key))?.holder).toMatchObject({ label: 'second' });
    await next.release();
  });

  it('of a call that got the key from another one here is known everywhere, and a list has that of the lease', async () => {
    const { a, b } = await openTwo();
    const key = uniqueKey();
    const held = await a.acquire(key, { label: 'first' });
    const waiting = a.acquire(key, { label: 'second' });
    await held.release();
    const next = await waiting;
    const [here, there] = [await a.inspect(key), await b.inspect(key)];
    expect(here?.holder).toMatchObject({ label: 'second' });
    const { holder, fencingToken } = here as LockInfo;
    expect(there).toMatchObject({ holder, fencingToken });
    for await (const lock of b.list(key)) expect(lock.holder).toMatchObject({ label: 'first' });
    await next.release();
  });

  it('is not shown here for the next call, which has no label [D33]', async () => {
    const { a } = await openTwo();
    const key = uniqueKey();
    const held = await a.acquire(key, { label: 'nightly' });
    const waiting = a.acquire(key);
    await held.release();
    const next = await waiting;
    expect((await a.inspect(key))?.holder).toMatchObject({ label: undefined });
    await next.release();
  });

  it('of a process that has died is shown until its lease ends', async () => {
    const { engine, store } = await openLocks(server.url, { leaseMs: 60_000 });
    const { engine: other } = await openLocks(server.url);
    const key = uniqueKey();
    await engine.acquire(key, { label: 'nightly', renew: false });
    await store.close(0);
    expect((await other.inspect(key))?.holder).toMatchObject({ label: 'nightly' });
  });

  it('with half a surrogate pair does not keep a waiter from its grant', async () => {
    const { a, b } = await openTwo();
    const key = uniqueKey();
    const held = await a.acquire(key);
    const waiting = b.acquire(key, { label: 'half \ud83d' });
    await eventually(async () => expect((await a.inspect(key))?.waiters).toBe(1));
    const releasedAt = performance.now();
    await held.release();
    const next = await waiting;
    expect(performance.now() - releasedAt).toBeLessThan(3_000); // by message, not by looking again
    for await (const { holder } of a.list(key)) expect(holder?.label).toBe('half \ufffd');
    expect(await next.release()).toBe(true);
  });

  it('has no key of its own in Redis', async () => {
    const { a } = await openTwo();
    const keys = Array.from({ length: 20 }, uniqueKey);
    await Promise.all(keys.map((key) => a.withLock(key, { label: 'x' }, async () => {})));
    expect(await server.admin.keys('lock:*label*')).toEqual([]);
    for (const key of keys) expect(await server.admin.exists(`lock:{${key}}`)).toBe(0);
  });

  it('that another client has written is shown as it stands', async () => {
    const { a } = await openTwo();
    const key = uniqueKey();
    for (const label of ['100%', 'two\nlines', 'a:b c']) {
      await server.admin.set(`lock:{${key}}`, `${'0'.repeat(32)}:1:${label}`, 'PX', 60_000);
      expect((await a.inspect(key))?.holder).toMatchObject({ label });
    }
  });
});
