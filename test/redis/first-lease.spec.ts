/** Short first leases on a real server, and the record of stalls that all processes share. */
import { describe, expect, it } from '@jest/globals';
import type { ObservedHour } from '../../libs/nestjs-locked/src/core/store/lock-store.js';
import { systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import { eventually } from '../support/eventually.js';
import { openAdmin, openLocks } from '../support/open-locks.js';
import { useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const server = useRedisServer();
const RECORD = 'lock:stalls';
const NOW = Math.floor(Date.now() / 3_600_000);
const DAY_MS = 86_400_000;

/** Blocks the event loop. */
function blockFor(ms: number): void {
  for (const until = performance.now() + ms; performance.now() < until;);
}

describe('firstLeaseMs', () => {
  it('frees the key of a process that dies at once so much sooner; whoever goes on has the whole lease', async () => {
    const { engine } = await openLocks(server.url, { firstLeaseMs: 3_000 });
    const admin = openAdmin(server.url);
    const key = uniqueKey();
    const lock = await engine.acquire(key);
    const atFirst = await admin.pttl(`lock:{${key}}`);
    expect(atFirst).toBeGreaterThan(0);
    expect(atFirst).toBeLessThanOrEqual(3_000);
    await eventually(async () => expect(await admin.pttl(`lock:{${key}}`)).toBeGreaterThan(20_000));
    expect(lock.isHeld).toBe(true);
    await lock.release();
    expect(await admin.exists(`lock:{${key}}`)).toBe(0);
  });

  it('holds for several keys at once, and under a lease that lingers', async () => {
    const { engine } = await openLocks(server.url, { firstLeaseMs: 3_000, lingerMs: 10_000 });
    const admin = openAdmin(server.url);
    const keys = [uniqueKey(), uniqueKey()] as const;
    await engine.withLock(keys, {}, async () => {
      for (const key of keys) expect(await admin.pttl(`lock:{${key}}`)).toBeLessThanOrEqual(3_000);
    });
    const [key] = keys;
    await engine.withLock(key, {}, async (lock) => {
      expect(lock.remainingMs()).toBeGreaterThan(15_000); // not less than half, as for every later call
      expect(await admin.pttl(`lock:{${key}}`)).toBeGreaterThan(15_000);
    });
  });
});

describe('the record of stalls', () => {
  const stores = async () => {
    const [{ store: a }, { store: b }] = await Promise.all([
      openLocks(server.url),
      openLocks(server.url),
    ]);
    const admin = openAdmin(server.url);
    await admin.del(RECORD);
    return { a, b, admin };
  };
  const sorted = (hours: readonly ObservedHour[]) => [...hours].sort(([a], [b]) => a - b);

  it('has the longest stall of each hour, of all processes, for a week', async () => {
    const { a, b, admin } = await stores();
    expect(await a.shareStalls([])).toEqual({ kind: 'shared', observed: [] });
    await a.shareStalls([
      [NOW - 1, 900],
      [NOW, 0],
    ]);
    const reply = await b.shareStalls([
      [NOW - 1, 1_000],
      [NOW - 167, 70],
      [NOW - 168, 80],
      [NOW + 1, 90],
    ]);
    expect(reply.kind === 'shared' && sorted(reply.observed)).toEqual([
      [NOW - 167, 70],
      [NOW - 1, 1_000],
      [NOW, 0],
    ]);
    const again = await a.shareStalls([[NOW - 1, 950]]);
    expect(again.kind === 'shared' && sorted(again.observed)).toEqual([
      [NOW - 167, 70],
      [NOW - 1, 1_000],
      [NOW, 0],
    ]);
    expect(await admin.pttl(RECORD)).toBeGreaterThan(7.9 * DAY_MS);
  });

  it('keeps what others have observed if the clock of a process is wrong', async () => {
    const { a, b, admin } = await stores();
    await a.shareStalls([[NOW, 900]]);
    const wrong = { ...systemClock, wallNow: () => Date.now() - 30 * DAY_MS };
    await (
      await openLocks(server.url, { firstLeaseMs: 'learned', clock: wrong })
    ).engine.close(1_000);
    expect(await b.shareStalls([])).toEqual({ kind: 'shared', observed: [[NOW, 900]] });
    expect(await admin.get(RECORD)).toBe(`${NOW}:900`);
  });

  it('is read at once, and repaired, if somebody has written something else into it', async () => {
    const { a, admin } = await stores();
    await admin.set(RECORD, `${NOW}:7 1:${'1'.repeat(200_000)}: ${NOW - 1}:8:9`);
    const since = performance.now();
    expect(await a.shareStalls([])).toEqual({ kind: 'shared', observed: [[NOW, 7]] });
    expect(performance.now() - since).toBeLessThan(3_000); // it was minutes, in which Redis did nothing else
    expect(await admin.get(RECORD)).toBe(`${NOW}:7`);
  });

  it('is unknown, and stays as it is, if something else has its name', async () => {
    const { a, admin } = await stores();
    await admin.lpush(RECORD, 'mine');
    expect(await a.shareStalls([[NOW, 5]])).toMatchObject({ kind: 'unknown' });
    expect(await admin.lrange(RECORD, 0, -1)).toEqual(['mine']);
    await admin.del(RECORD);
  });

  it('is no lock: nobody sees it in a list', async () => {
    const { a } = await stores();
    await a.shareStalls([[NOW, 5]]);
    const { engine } = await openLocks(server.url);
    for await (const lock of engine.list('*')) expect(lock.key).not.toContain('stalls');
  });

  it('lets a process that has just started learn, and one that is blocked is careful', async () => {
    const { a, admin } = await stores();
    const day = Array.from({ length: 24 }, (_, i): ObservedHour => [NOW - i, 10]);
    await a.shareStalls(day);
    const { engine } = await openLocks(server.url, { firstLeaseMs: 'learned' });
    const key = uniqueKey();
    for (let i = 0; i < 50; i++) await engine.withLock(key, {}, () => undefined);
    const lengthOf = (): Promise<number> =>
      engine.withLock(key, {}, () => admin.pttl(`lock:{${key}}`));
    expect(await lengthOf()).toBeLessThan(20_000); // 3,000 unless this machine stands still for long
    blockFor(2_000);
    await new Promise((resolve) => setTimeout(resolve, 200));
    const careful = await lengthOf();
    expect(careful).toBeGreaterThan(7_000);
    await engine.close(1_000);
    const observed = await a.shareStalls([]);
    const longest =
      observed.kind === 'shared' ? Math.max(...observed.observed.map(([, ms]) => ms)) : 0;
    expect(longest).toBeGreaterThanOrEqual(1_900);
  });
});
