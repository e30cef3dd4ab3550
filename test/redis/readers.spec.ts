/** Readers of several processes on a real server: who waits for whom, and what operators see. */
import { describe, expect, it } from '@jest/globals';
import type { Lock } from '../../libs/nestjs-locked/src/core/lock.js';
import { eventually } from '../support/eventually.js';
import { openAdmin, openLocks } from '../support/open-locks.js';
import { useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const server = useRedisServer();
const SHARED = { mode: 'shared', waitMs: 60_000 } as const;

const openMany = (count: number) =>
  Promise.all(Array.from({ length: count }, async () => (await openLocks(server.url)).engine));

const release = (locks: readonly Lock[]) => Promise.all(locks.map((lock) => lock.release()));

describe('readers of several processes', () => {
  it('have the key together; a writer waits for them, and later readers for the writer', async () => {
    const engines = await openMany(3);
    const [a, b] = engines as [(typeof engines)[0], (typeof engines)[0]];
    const key = uniqueKey();
    const entered: string[] = [];
    const readers = await Promise.all(engines.map((engine) => engine.acquire(key, SHARED)));
    const writing = a.acquire(key, { waitMs: 60_000 });
    void writing.then(() => entered.push('writer'));
    await eventually(async () => expect((await a.inspect(key))?.waiters).toBe(1));
    const late = engines.map((engine) => engine.acquire(key, SHARED));
    for (const reading of late) void reading.then(() => entered.push('reader'));
    await eventually(async () => expect((await b.inspect(key))?.waiters).toBe(4));
    expect(await b.tryAcquire(key, { mode: 'shared' })).toBeNull();
    await release(readers.slice(0, 2));
    expect(entered).toEqual([]);
    await release(readers.slice(2));
    const writer = await writing;
    expect(entered).toEqual(['writer']);
    const numbers = readers.map(({ fencingToken }) => fencingToken);
    expect(writer.fencingToken).toBeGreaterThan(Math.max(...numbers));
    await writer.release();
    const next = await Promise.all(late);
    expect(entered).toEqual(['writer', 'reader', 'reader', 'reader']);
    for (const { fencingToken } of next) expect(fencingToken).toBeGreaterThan(writer.fencingToken);
    await release(next);
    expect(await a.inspect(key)).toBeNull();
  });

  it('that never stop let a writer in, and cost no commands until one comes', async () => {
    const engines = await openMany(2);
    const key = uniqueKey();
    let [isOver, reads] = [false, 0];
    const readOn = async (i: number): Promise<void> => {
      for (; !isOver; reads++)
        await engines[i % 2]?.withLock(key, SHARED, () => new Promise(setImmediate));
    };
    const reading = Array.from({ length: 20 }, (_, i) => readOn(i));
    const admin = openAdmin(server.url);
    await eventually(() => expect(reads).toBeGreaterThan(20));
    const scripts = async (): Promise<number> =>
      Number(/cmdstat_evalsha:calls=(\d+)/.exec(await admin.info('commandstats'))?.[1]);
    const [before, readsBefore] = [await scripts(), reads];
    await eventually(() => expect(reads - readsBefore).toBeGreaterThan(2_000));
    expect(await scripts()).toBeLessThan(before + 100);
    for (let i = 0; i < 5; i++) await engines[i % 2]?.withLock(key, { waitMs: 60_000 }, () => {});
    isOver = true;
    await Promise.all(reading);
    expect(await admin.get(`lock:{${key}}`)).toBeNull();
  });

  it('keep others out each for its own lease, although another one is renewed', async () => {
    const { engine: dead, store } = await openLocks(server.url, { leaseMs: 1_000 });
    const [a, b] = await openMany(2);
    const key = uniqueKey();
    await dead.acquire(key, { ...SHARED, renew: false });
    await store.close(0);
    const sound = await a?.acquire(key, SHARED);
    const admin = openAdmin(server.url);
    await eventually(async () => {
      await sound?.ensureRemaining(29_000);
      const value = await admin.get(`lock:{${key}}`);
      expect(value).not.toContain(store.processId);
    });
    const writing = b?.acquire(key, { waitMs: 60_000 });
    await sound?.release();
    await (await writing)?.release();
  });
});

describe('operators', () => {
  it('see all processes that read, and take the key from all of them', async () => {
    const [a, b, c] = await openMany(3);
    const key = uniqueKey();
    const first = await a?.acquire(key, { ...SHARED, label: 'a' });
    const alone = await c?.inspect(key);
    expect(alone).toMatchObject({ mode: 'shared', state: 'held', holders: [{ label: 'a' }] });
    const second = await b?.acquire(key, { ...SHARED, label: 'b' });
    const both = await c?.inspect(key);
    expect(both?.holders.map(({ label }) => label)).toEqual(['a', 'b']);
    expect(both?.holder).toEqual(both?.holders[0]);
    expect(await c?.forceRelease(key, alone?.leaseId)).toBe(false);
    await first?.ensureRemaining(29_500); // does not change whose leases they are
    expect((await c?.inspect(key))?.leaseId).toBe(both?.leaseId);
    expect(await c?.forceRelease(key, both?.leaseId)).toBe(true);
    for (const lock of [first, second]) {
      await eventually(() => expect(lock?.signal.reason).toMatchObject({ reason: 'revoked' }));
      expect(await lock?.release()).toBe(false);
    }
    await (await c?.acquire(key))?.release();
  });

  it('see one of the readers that are inside, whoever came first or last', async () => {
    const [a] = await openMany(1);
    const key = uniqueKey();
    const labels = ['first', 'inside', 'last'];
    const readers = [];
    for (const label of labels) readers.push(await a?.acquire(key, { ...SHARED, label }));
    await readers[0]?.release();
    await readers[2]?.release();
    const { fencingToken } = readers[1] as Lock;
    const holder = { label: 'inside' };
    expect(await a?.inspect(key)).toMatchObject({ fencingToken, holder, holders: [holder] });
  });
});
