/** Permits of several processes on a real server: how many hold a key at once, in which order, and with which slots. */
import { describe, expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import type { Lock } from '../../libs/nestjs-locked/src/core/lock.js';
import { eventually } from '../support/eventually.js';
import { openAdmin, openLocks } from '../support/open-locks.js';
import { useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const server = useRedisServer();
const WAIT = { waitMs: 60_000 } as const;

const openMany = async (count: number): Promise<readonly [LockEngine, LockEngine, LockEngine]> => {
  const opened = Array.from({ length: count }, async () => (await openLocks(server.url)).engine);
  return (await Promise.all(opened)) as unknown as readonly [LockEngine, LockEngine, LockEngine];
};

/** Counts how many are inside at once, and who has which slot. It never asks the library. */
class Register {
  taken = 0;
  most = 0;
  uses = 0;
  readonly #slots = new Set<number>();

  enter(weight: number, slot: number): void {
    this.taken += weight;
    this.most = Math.max(this.most, this.taken);
    this.uses++;
    if (this.#slots.has(slot)) throw new Error(`slot ${slot} is held twice`);
    this.#slots.add(slot);
  }

  leave(weight: number, slot: number): void {
    this.taken -= weight;
    this.#slots.delete(slot);
  }
}

describe('permits of several processes', () => {
  it.each([
    { permits: 3, heaviest: 1 },
    { permits: 5, heaviest: 3 },
    { permits: 40, heaviest: 1 },
  ])(
    '$permits are never exceeded, with weights up to $heaviest [G48]',
    async ({ permits, heaviest }) => {
      const engines = await openMany(3);
      const key = uniqueKey();
      const register = new Register();
      const use = async (engine: LockEngine, i: number): Promise<void> => {
        const weight = 1 + (i % heaviest);
        await engine.withLock(key, { permits, weight, ...WAIT }, async (lock) => {
          expect(lock.slot).toBeLessThan(permits);
          register.enter(weight, lock.slot);
          await sleep(i % 5);
          register.leave(weight, lock.slot);
        });
      };
      const work = engines.flatMap((engine, at) =>
        Array.from({ length: 14 }, async (_, caller) => {
          for (let i = 0; i < 15; i++) await use(engine, at + caller + i);
        }),
      );
      await Promise.all(work);
      expect(register.uses).toBe(3 * 14 * 15);
      expect(register.taken).toBe(0);
      expect(register.most).toBeLessThanOrEqual(permits);
      expect(register.most).toBeGreaterThan(permits / 2);
      const admin = openAdmin(server.url);
      const left = await admin.keys(`lock:{${key}}*`);
      expect(left.filter((name) => !name.endsWith(':fence'))).toEqual([]);
    },
  );

  it('take their turns in order of arrival, across processes', async () => {
    const [a, b] = await openMany(2);
    const key = uniqueKey();
    const held = [await a.acquire(key, { permits: 2 }), await b.acquire(key, { permits: 2 })];
    const order: string[] = [];
    const waiting: Promise<Lock>[] = [];
    const waits = async (engine: LockEngine, name: string, weight = 1): Promise<void> => {
      const asked = engine.acquire(key, { permits: 2, weight, ...WAIT });
      waiting.push(asked);
      void asked.then(() => order.push(name));
      await eventually(async () => expect((await a.inspect(key))?.waiters).toBe(waiting.length));
    };
    await waits(a, 'heavy', 2);
    await waits(b, 'light');
    await held[0]?.release();
    await sleep(100);
    expect(order).toEqual([]);
    await held[1]?.release();
    const heavy = await waiting[0];
    expect(order).toEqual(['heavy']);
    await heavy?.release();
    await (await waiting[1])?.release();
    expect(order).toEqual(['heavy', 'light']);
  });

  it('many calls of a process that wait have one place in the queue of the store', async () => {
    const [a, b] = await openMany(2);
    const key = uniqueKey();
    const held = await a.acquire(key, { permits: 1 });
    const first = b.acquire(key, { permits: 1, ...WAIT });
    await eventually(async () => expect((await a.inspect(key))?.waiters).toBe(1));
    const order: number[] = [];
    const others = Array.from({ length: 30 }, (_, i) =>
      b.withLock(key, { permits: 1, ...WAIT }, () => void order.push(i)),
    );
    const admin = openAdmin(server.url);
    await eventually(async () => expect((await b.inspect(key))?.waiters).toBe(31));
    expect(await admin.zcard(`lock:{${key}}:queue`)).toBeLessThanOrEqual(2);
    await held.release();
    await (await first).release();
    await Promise.all(others);
    expect(order).toEqual(Array.from({ length: 30 }, (_, i) => i));
  });

  it('of a call that gives up go to the next, also if that one wants another number', async () => {
    const [a, b] = await openMany(2);
    const key = uniqueKey();
    const held = await a.acquire(key, { permits: 2 });
    const controller = new AbortController();
    const heavy = b.acquire(key, { permits: 2, weight: 2, ...WAIT, signal: controller.signal });
    await eventually(async () => expect((await a.inspect(key))?.waiters).toBe(1));
    const light = b.acquire(key, { permits: 2, ...WAIT });
    await sleep(50);
    controller.abort();
    await expect(heavy).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    const lock = await light;
    expect(lock.slot).toBe(1);
    await Promise.all([lock.release(), held.release()]);
  });

  it.each([
    { held: 1, name: 'the only holder' },
    { held: 3, name: 'one of several holders' },
  ])('that $name counts otherwise are reported once, to whoever waits', async ({ held }) => {
    const [old, changed] = await Promise.all([openLocks(server.url), openLocks(server.url)]);
    const prefix = uniqueKey('limit');
    for (const key of [`${prefix}:1`, `${prefix}:2`]) {
      const weight = 4 - held; // so that three of them are taken
      const first = await changed.engine.acquire(key, { permits: 4, weight });
      const others = Array.from({ length: held - 1 }, (_, i) =>
        old.engine.acquire(key, { permits: i === 0 ? 4 : 3 }),
      );
      const locks = [first, ...(await Promise.all(others))];
      const waiting = old.engine.acquire(key, { permits: 3, ...WAIT, label: 'Old.charge' });
      await eventually(async () => expect((await old.engine.inspect(key))?.waiters).toBe(1));
      await Promise.all(locks.map((lock) => lock.release()));
      const last = await waiting;
      const alike = old.engine.acquire(key, { permits: 3, weight: 3, ...WAIT });
      await eventually(async () => expect((await old.engine.inspect(key))?.waiters).toBe(1));
      await last.release();
      await (await alike).release();
    }

    const differ = old.events.filter(({ type }) => type === 'permits-differ');
    expect(differ).toEqual([
      {
        type: 'permits-differ',
        key: `${prefix}:1`,
        label: 'Old.charge',
        template: expect.stringContaining('limit') as unknown,
        permits: 3,
        othersPermits: 4,
      },
    ]);
    expect(changed.events).toEqual([]);
  });

  it('of a dead process come free with its lease, while others renew theirs', async () => {
    const { engine: dead, store } = await openLocks(server.url, { leaseMs: 1_000 });
    const [a, b] = await openMany(2);
    const key = uniqueKey();
    await dead.acquire(key, { permits: 2, renew: false });
    await store.close(0);
    const sound = await a.acquire(key, { permits: 2 });
    expect(sound.slot).toBe(1);
    const startedAt = performance.now();
    const next = await b.acquire(key, { permits: 2, ...WAIT });
    expect(next.slot).toBe(0);
    expect(performance.now() - startedAt).toBeLessThan(4_000);
    await Promise.all([next.release(), sound.release()]);
  });

  it('keep out an exclusive call, which waits for all of them', async () => {
    const [a, b] = await openMany(2);
    const key = uniqueKey();
    const held = [await a.acquire(key, { permits: 3 }), await b.acquire(key, { permits: 3 })];
    expect(await b.tryAcquire(key)).toBeNull();
    const alone = b.acquire(key, WAIT);
    await eventually(async () => expect((await a.inspect(key))?.waiters).toBe(1));
    const later = a.acquire(key, { permits: 3, ...WAIT });
    expect(await a.tryAcquire(key, { permits: 3 })).toBeNull();
    for (const lock of held) await lock.release();
    const lock = await alone;
    expect(lock.slot).toBe(0);
    expect(lock.fencingToken).toBeGreaterThan(0);
    await lock.release();
    await (await later).release();
  });

  it('are in several keys at once: all of them or none', async () => {
    const [a, b] = await openMany(2);
    const [tenant, all] = [uniqueKey(), uniqueKey()];
    const permits = (key: string): number => (key === tenant ? 1 : 2);
    const one = await a.acquire([tenant, all], { permits });
    expect([one.slotOf(tenant), one.slotOf(all)]).toEqual([0, 0]);
    expect(await b.tryAcquire([tenant, all], { permits })).toBeNull();
    const rest = await b.tryAcquire(all, { permits });
    expect(rest?.slot).toBe(1);
    await one.release();
    await rest?.release();
    const mixed = (key: string): number | undefined => (key === all ? 2 : undefined);
    const alone = await a.acquire([tenant, all], { permits: mixed });
    expect(alone.fencingTokenOf(tenant)).toBeGreaterThan(0);
    expect(await b.tryAcquire(tenant, { permits: 5 })).toBeNull();
    await alone.release();
  });
});

describe('operators', () => {
  it('see who has which permits, and take the key from all of them', async () => {
    const [a, b, c] = await openMany(3);
    const key = uniqueKey();
    const first = await a.acquire(key, { permits: 4, weight: 2, label: 'a' });
    const second = await b.acquire(key, { permits: 4, label: 'b' });
    const seen = await c.inspect(key);
    expect(seen).toMatchObject({
      mode: 'permit',
      state: 'held',
      holders: [
        { label: 'a', slot: 0, weight: 2 },
        { label: 'b', slot: 1, weight: 1 },
      ],
    });
    expect(await c.forceRelease(key, seen?.leaseId)).toBe(true);
    for (const lock of [first, second]) {
      await eventually(() => expect(lock.signal.reason).toMatchObject({ reason: 'revoked' }));
      expect(await lock.release()).toBe(false);
    }
    await (await c.acquire(key, { permits: 1, ...WAIT })).release();
  });
});
