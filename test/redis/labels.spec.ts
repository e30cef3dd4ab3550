import { describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../support/eventually.js';
import { openLocks } from '../support/open-locks.js';
import { useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const server = useRedisServer();
const labels = (): Promise<string[]> => server.admin.keys('lock:*:label');

describe('a label', () => {
  it('exists as long as the lease is renewed, and ends with it', async () => {
    const { engine } = await openLocks(server.url, { leaseMs: 600 });
    const key = uniqueKey();
    await engine.withLock(key, { label: 'nightly' }, async () => {
      await sleep(1_500); // several renewals
      expect((await engine.inspect(key))?.holder).toMatchObject({ label: 'nightly' });
      expect(await labels()).toHaveLength(1);
      const [label = ''] = await labels();
      expect(await server.admin.pttl(label)).toBeLessThanOrEqual(600);
    });
    await eventually(async () => expect(await labels()).toEqual([]));
  });

  it('of a process that died ends with its lease', async () => {
    const { engine, store } = await openLocks(server.url, { leaseMs: 600 });
    await engine.acquire(uniqueKey(), { label: 'nightly', renew: false });
    await eventually(async () => expect(await labels()).toHaveLength(1));
    await store.close(0);
    await sleep(700);
    expect(await labels()).toEqual([]);
  });

  it('of the next holder stays', async () => {
    const [{ engine: a }, { engine: b }] = [
      await openLocks(server.url),
      await openLocks(server.url),
    ];
    const key = uniqueKey();
    const held = await a.acquire(key, { label: 'first' });
    const waiting = b.acquire(key, { label: 'second' });
    await eventually(async () => expect((await a.inspect(key))?.waiters).toBe(1));
    await held.release();
    const next = await waiting;
    await eventually(async () =>
      expect((await a.inspect(key))?.holder).toMatchObject({ label: 'second' }),
    );
    await next.release();
    await eventually(async () => expect(await labels()).toEqual([]));
  });

  it('is not shown for the next call of the same process, which has no label [D33]', async () => {
    const { engine } = await openLocks(server.url);
    const key = uniqueKey();
    const held = await engine.acquire(key, { label: 'nightly' });
    await eventually(async () =>
      expect((await engine.inspect(key))?.holder).toMatchObject({ label: 'nightly' }),
    );
    const waiting = engine.acquire(key);
    await held.release();
    const next = await waiting;
    await eventually(async () => expect(await labels()).toEqual([]));
    expect((await engine.inspect(key))?.holder).toMatchObject({ label: undefined });
    await next.release();
  });

  it('of many short calls leaves nothing behind', async () => {
    const { engine } = await openLocks(server.url, { leaseMs: 3_600_000 }); // none expires by itself
    const keys = Array.from({ length: 300 }, uniqueKey);
    await Promise.all(keys.map((key) => engine.withLock(key, { label: 'x' }, async () => {})));
    await eventually(async () => expect(await labels()).toEqual([]));
  });
});
