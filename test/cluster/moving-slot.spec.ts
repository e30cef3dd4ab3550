/** A slot moves from one master to another, step by step, while its lock is in use. */
import { afterEach, beforeEach, describe, expect } from '@jest/globals';
import type { RedisServer } from 'dev-servers';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import { eventually } from '../support/eventually.js';
import { fault } from '../support/fault-report.js';
import { openAdmin } from '../support/open-locks.js';
import { useRedisCluster } from '../support/own-cluster.js';
import { uniqueKey } from '../support/unique-key.js';

/** A command may take 1.5 s, and a busy machine may need as long. Renewed as often. */
const LEASE_MS = 4_500;
/** For how long a whole release is tried: half of the time that a command may take. */
const WHOLE_FOR_MS = LEASE_MS / 6;
/** Longer than a command may take, and than the time for which a whole release is tried. */
const LONGER_THAN_A_COMMAND_MS = LEASE_MS / 3 + 300;
/** Bound on what takes milliseconds when the machine is idle. */
const SOON_MS = 2_000;

async function scriptsRunBy(server: RedisServer): Promise<number> {
  const stats = await openAdmin(server.url).info('commandstats');
  const calls = Array.from(stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g), ([, n]) =>
    Number(n),
  );
  return calls.reduce((sum, each) => sum + each, 0);
}

describe('a slot that moves', () => {
  const cluster = useRedisCluster();
  let key: string;
  let slot: number;
  let to: RedisServer;
  let near: LockEngine;
  let far: LockEngine;

  const open = async (): Promise<LockEngine> =>
    (await cluster.openLocks({ leaseMs: LEASE_MS, waitMs: 20_000 })).engine;

  beforeEach(async () => {
    key = uniqueKey('moving');
    slot = await cluster.slotOf(key);
    to = await cluster.otherMaster(key);
    near = await open();
    far = await open();
  });

  afterEach(async () => {
    // A move that a test has left half-way would disturb the next one.
    if ((await cluster.servers.masterOf(slot)) === to) return;
    await cluster.servers.moveKeys(slot).catch(() => {});
    await cluster.servers.endMove(slot).catch(() => {});
  });

  /** How long its lock lasts, wherever it is. */
  const pttl = async (server: RedisServer): Promise<number> => {
    const admin = openAdmin(server.url);
    const [, left] = (await admin.multi().call('ASKING').pttl(`lock:{${key}}`).exec()) ?? [];
    return Number(left?.[1]);
  };

  fault(
    'held through all steps',
    'the holder renews its lease in every one of them, and keeps it [G34]',
    async () => {
      const lock = await near.acquire(key);
      await cluster.servers.beginMove(slot, to);
      await sleep(LEASE_MS);
      expect(lock.isHeld).toBe(true);
      await cluster.servers.moveKeys(slot);
      await sleep(LEASE_MS);
      expect(lock.isHeld).toBe(true);
      await cluster.servers.endMove(slot);
      await sleep(LEASE_MS);
      expect(lock.isHeld).toBe(true);
      expect(await pttl(to)).toBeGreaterThan(LEASE_MS / 3);
      expect(await lock.release()).toBe(true);
      expect(await (await far.acquire(key)).release()).toBe(true);
    },
  );

  fault(
    'held with a short first lease',
    'the first renewal asks for the whole one, also half-way',
    async () => {
      const options = { leaseMs: 30_000, waitMs: 20_000, firstLeaseMs: 3_000 };
      const { engine } = await cluster.openLocks(options);
      const from = await cluster.masterOf(key);
      const lock = await engine.acquire(key);
      expect(lock.remainingMs()).toBeLessThanOrEqual(3_000);
      await cluster.servers.beginMove(slot, to);
      await eventually(() => expect(lock.remainingMs()).toBeGreaterThan(20_000));
      expect(await pttl(from)).toBeGreaterThan(20_000);
      await cluster.servers.moveKeys(slot);
      await cluster.servers.endMove(slot);
      expect(await lock.release()).toBe(true);
    },
  );

  fault(
    'held as many permits',
    'they are renewed in few commands, and kept in every step',
    async (measure) => {
      const permits = 250;
      const held = await Promise.all(
        Array.from({ length: permits }, () => near.acquire(key, { permits })),
      );
      const areHeld = (): boolean => held.every(({ isHeld }) => isHeld);
      const from = await cluster.masterOf(key);
      const before = await scriptsRunBy(from);
      await sleep(LEASE_MS);
      const scripts = (await scriptsRunBy(from)) - before;
      measure('scripts for all of them while a lease lasts', scripts, '');
      expect(areHeld()).toBe(true);
      expect(scripts).toBeGreaterThan(0);
      expect(scripts).toBeLessThan(permits / 4); // about a hundred in each

      await cluster.servers.beginMove(slot, to);
      await sleep(LEASE_MS);
      expect(areHeld()).toBe(true);
      await cluster.servers.moveKeys(slot);
      await sleep(LEASE_MS);
      expect(areHeld()).toBe(true);
      await cluster.servers.endMove(slot);
      await sleep(LEASE_MS);
      expect(areHeld()).toBe(true);
      expect(await pttl(to)).toBeGreaterThan(LEASE_MS / 3);
      expect((await far.inspect(key))?.mode).toBe('permit');
    },
  );

  fault(
    'held and waited for',
    'the waiter is handed the lock by a message from the new node [G34]',
    async (measure) => {
      const lock = await near.acquire(key);
      const waiting = far.acquire(key);
      await waitsFor(await cluster.masterOf(key), key);
      await cluster.servers.moveSlot(slot, to);
      const released = performance.now();
      expect(await lock.release()).toBe(true);
      const next = await waiting;
      measure('handed over in', performance.now() - released, 'ms');
      expect(performance.now() - released).toBeLessThan(SOON_MS);
      expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
      expect(await next.release()).toBe(true);
    },
  );

  fault(
    'released half-way',
    'the lock is free, and the waiter gets it when the slot has arrived',
    async () => {
      const lock = await near.acquire(key);
      const waiting = far.acquire(key);
      await waitsFor(await cluster.masterOf(key), key);
      await cluster.servers.beginMove(slot, to);
      expect(await lock.release()).toBe(true);
      await sleep(LONGER_THAN_A_COMMAND_MS);
      await cluster.servers.moveKeys(slot);
      await cluster.servers.endMove(slot);
      const next = await waiting;
      expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
      expect(await next.release()).toBe(true);
    },
  );

  /** A script may delete one of its keys then, but the source refuses it as soon as the script asks for it again. */
  describe('while all its keys are still at the source', () => {
    beforeEach(async () => {
      const source = openAdmin((await cluster.masterOf(key)).url);
      await source.set(`lock:{${key}}:lapsed`, '1', 'PX', 60_000);
    });

    for (const how of ['released', 'released by a process whose own calls wait'])
      fault(how, 'another waiting process gets it at once', async () => {
        const { engine } = await cluster.openLocks({ leaseMs: LEASE_MS, localHandovers: 0 });
        const lock = await engine.acquire(key);
        const next = far.acquire(key);
        await waitsFor(await cluster.masterOf(key), key);
        const own = how === 'released' ? undefined : engine.acquire(key);
        await cluster.servers.beginMove(slot, to);
        expect(await lock.release()).toBe(true);
        const second = await next;
        expect(second.fencingToken).toBeGreaterThan(lock.fencingToken);
        await cluster.servers.moveKeys(slot);
        await cluster.servers.endMove(slot);
        expect(await second.release()).toBe(true);
        if (own !== undefined) expect(await (await own).release()).toBe(true);
      });

    fault('taken away', 'its holder is told at once, and the waiter gets it', async (measure) => {
      const lock = await near.acquire(key);
      const next = far.acquire(key);
      await waitsFor(await cluster.masterOf(key), key);
      await cluster.servers.beginMove(slot, to);
      expect(await far.forceRelease(key)).toBe(true);
      const from = performance.now();
      await eventually(() => expect(lock.signal.aborted).toBe(true));
      measure('told after', performance.now() - from, 'ms');
      await cluster.servers.moveKeys(slot);
      await cluster.servers.endMove(slot);
      const second = await next;
      expect(second.fencingToken).toBeGreaterThan(lock.fencingToken);
      expect(await second.release()).toBe(true);
    });

    fault('checked by the only waiter', 'it keeps its position', async () => {
      const lock = await near.acquire(key);
      const source = await cluster.masterOf(key);
      const next = far.acquire(key);
      await waitsFor(source, key);
      const waiter = async (): Promise<unknown> =>
        (await openAdmin(source.url).zrange(`lock:{${key}}:queue`, '0', '0'))[0];
      await cluster.servers.beginMove(slot, to);
      const before = await waiter();
      await openAdmin(source.url).call('CLIENT', 'KILL', 'TYPE', 'pubsub'); // waiters then check again
      await eventually(async () => {
        expect(await waiter()).toMatch(/^[0-9a-f]{32}:/);
        expect(await waiter()).not.toBe(before);
      });
      await cluster.servers.moveKeys(slot);
      await cluster.servers.endMove(slot);
      expect(await lock.release()).toBe(true);
      expect(await (await next).release()).toBe(true);
    });
  });

  fault(
    'released half-way with holdAtLeastMs',
    'the key stays taken for the rest of that time',
    async () => {
      const lock = await near.acquire(key, { holdAtLeastMs: 6_000 });
      const source = await cluster.masterOf(key);
      await cluster.servers.beginMove(slot, to);
      expect(await lock.release()).toBe(true);
      expect(await openAdmin(source.url).get(`lock:{${key}}`)).toMatch(/^kept:/);
      expect(await openAdmin(source.url).pttl(`lock:{${key}}`)).toBeLessThanOrEqual(
        6_000 - WHOLE_FOR_MS,
      );
      await cluster.servers.moveKeys(slot);
      await cluster.servers.endMove(slot);
      expect(await far.tryAcquire(key)).toBe(null);
    },
  );

  fault(
    'requested half-way',
    'a call waits until the slot has arrived; a single try fails with LockStoreError [G35]',
    async () => {
      await (await near.acquire(key)).release(); // its fence is there, the rest is not
      await cluster.servers.beginMove(slot, to);
      const waiting = near.acquire(key);
      await expect(far.acquire(key, { waitMs: 0 })).rejects.toMatchObject({
        code: 'LOCK_STORE_FAILED',
      });
      await cluster.servers.moveKeys(slot);
      await cluster.servers.endMove(slot);
      expect(await (await waiting).release()).toBe(true);
    },
  );

  fault(
    'several keys, one of them half-way',
    'all or none: nothing stays taken while one of them cannot be had [G36]',
    async () => {
      const others = [uniqueKey('a'), uniqueKey('zz')];
      await (await near.acquire(key)).release();
      await cluster.servers.beginMove(slot, to);
      await expect(near.acquire([key, ...others], { waitMs: 0 })).rejects.toMatchObject({
        code: 'LOCK_STORE_FAILED',
      });
      await eventually(async () =>
        expect(await Promise.all(others.map((other) => far.inspect(other)))).toEqual([null, null]),
      );
      const waiting = near.acquire([key, ...others]);
      await cluster.servers.moveKeys(slot);
      await cluster.servers.endMove(slot);
      const lock = await waiting;
      expect(new Set(lock.keys)).toEqual(new Set([key, ...others]));
      expect(await far.tryAcquire(others[0] as string)).toBe(null);
      expect(await lock.release()).toBe(true);
    },
  );

  fault('moved while it was unused', 'the next command follows it at once', async (measure) => {
    await (await near.acquire(key)).release();
    const before = openAdmin((await cluster.masterOf(key)).url);
    await cluster.servers.moveSlot(slot, to);
    await before.config('RESETSTAT');
    const from = performance.now();
    const lock = await near.acquire(key);
    measure('acquired after', performance.now() - from, 'ms');
    // It was asked once, or not at all if the cluster was queried in between.
    const refused = /errorstat_MOVED:count=(\d+)/.exec(await before.info('errorstats'));
    expect(Number(refused?.[1] ?? 0)).toBeLessThanOrEqual(1);
    expect(await lock.release()).toBe(true);
  });

  fault(
    'a node that forgets the scripts',
    'every lock keeps working, there and elsewhere [G37]',
    async () => {
      const lock = await near.acquire(key);
      await openAdmin((await cluster.masterOf(key)).url).script('FLUSH');
      expect(await far.tryAcquire(key)).toBe(null);
      await sleep(LEASE_MS);
      expect(lock.isHeld).toBe(true);
      expect(await lock.release()).toBe(true);
      expect(await (await far.acquire([key, uniqueKey('a')])).release()).toBe(true);
    },
  );
});

async function waitsFor(server: RedisServer, key: string): Promise<void> {
  const admin = openAdmin(server.url);
  await eventually(async () => expect(await admin.zcard(`lock:{${key}}:queue`)).toBe(1));
}
