/** Masters of a cluster that die, freeze, or step down, while locks are held and waited for. */
import { describe, expect } from '@jest/globals';
import type { RedisServer } from 'dev-servers';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LockEvent } from '../../libs/nestjs-locked/src/core/lock-events.js';
import { eventually } from '../support/eventually.js';
import { fault } from '../support/fault-report.js';
import { openAdmin } from '../support/open-locks.js';
import { startRedisCluster } from '../support/own-cluster.js';
import { uniqueKey } from '../support/unique-key.js';

/** Longer than a failover, which takes four seconds here. A command may take 5 s. */
const LEASE_MS = 15_000;
const SOON_MS = 2_000;
const PATIENT_MS = 60_000;

const types = (events: readonly LockEvent[]): string[] => events.map(({ type }) => type);

/** A separate cluster for each test, with two lock services and one of the masters, which has `key`. */
async function stage(leaseMs = LEASE_MS) {
  const cluster = await startRedisCluster({ nodeTimeoutMs: 2_000 });
  const [victim] = (await cluster.servers.masters()) as [RedisServer];
  let key: string | undefined;
  let elsewhere: string | undefined;
  while (key === undefined || elsewhere === undefined) {
    const name = uniqueKey('k');
    if ((await cluster.masterOf(name)) === victim) key = name;
    else elsewhere = name;
  }
  /** Processes learn of an outage, and of its end, one after the other: none may refuse a call because of it. */
  const open = () => cluster.openLocks({ leaseMs, waitMs: 60_000, failFastAfterMs: Infinity });
  /** Another process waits for the key, and the replica knows. */
  const waitsThere = async (): Promise<void> => {
    const admin = openAdmin(victim.url);
    await eventually(async () => expect(await admin.zcard(`lock:{${key}}:queue`)).toBe(1));
    await admin.wait(1, 2_000);
  };
  return { cluster, victim, key, elsewhere, open, waitsThere };
}

describe('a master of the cluster', () => {
  fault(
    'killed while held and waited for',
    'the holder keeps its lock on the new master, and the waiter is granted it by message [G30]',
    async (measure) => {
      const { victim, key, elsewhere, open, waitsThere } = await stage();
      const near = await open();
      const far = await open();
      const lock = await near.engine.acquire(key);
      const waiting = far.engine.acquire(key);
      await waitsThere();

      const from = performance.now();
      await victim.kill();
      const others = performance.now();
      expect(await (await near.engine.acquire(elsewhere)).release()).toBe(true);
      expect(performance.now() - others).toBeLessThan(SOON_MS);
      await eventually(() => expect(types(near.events)).toContain('store-back'), PATIENT_MS);
      await lock.ensureRemaining(LEASE_MS - 1_000);
      measure('renewed on the new master after', performance.now() - from, 'ms');
      await eventually(() => expect(types(far.events)).toContain('store-back'), PATIENT_MS);
      expect(lock.isHeld).toBe(true);

      const released = performance.now();
      expect(await lock.release()).toBe(true);
      const next = await waiting;
      measure('handed over in', performance.now() - released, 'ms');
      expect(performance.now() - released).toBeLessThan(SOON_MS);
      expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
      expect(await next.release()).toBe(true);
      expect(types(near.events)).not.toContain('lost');
      expect(types(near.events).filter((type) => type === 'store-lost')).toHaveLength(1);
    },
  );

  fault(
    'killed for longer than the lease',
    'the signal aborts in time; calls for its keys fail fast, and those of other masters do not [G33]',
    async () => {
      const { victim, key, elsewhere, open } = await stage(1_500);
      const { engine, events } = await open();
      const lock = await engine.acquire(key);
      await victim.kill();
      await eventually(() => expect(lock.signal.aborted).toBe(true), PATIENT_MS);
      expect(await (await engine.acquire(elsewhere, { waitMs: 1_000 })).release()).toBe(true);
      expect(types(events)).toEqual(expect.arrayContaining(['store-lost', 'lost']));
      await expect(engine.ping()).rejects.toMatchObject({ code: 'LOCK_STORE_FAILED' });

      await eventually(async () => {
        const again = await engine.acquire(key, { waitMs: 1_000 });
        expect(again.fencingToken).toBeGreaterThan(lock.fencingToken);
        expect(await again.release()).toBe(true);
      }, PATIENT_MS);
      await eventually(async () => expect(await engine.ping()).toBeGreaterThan(0), PATIENT_MS);
    },
  );

  fault(
    'steps down for its replica',
    'the lock is kept, and the waiter is granted it by message; nothing is lost [G31]',
    async (measure) => {
      const { cluster, victim, key, open, waitsThere } = await stage(3_000);
      const [replica] = (await cluster.servers.replicasOf(victim)) as [RedisServer];
      const near = await open();
      const far = await open();
      const lock = await near.engine.acquire(key);
      const waiting = far.engine.acquire(key);
      await waitsThere();
      await cluster.servers.failover(replica);
      await lock.ensureRemaining(2_000);
      await eventually(async () =>
        expect(await openAdmin(replica.url).pubsub('CHANNELS', 'lock:inbox:*')).toHaveLength(2),
      );
      const released = performance.now();
      expect(await lock.release()).toBe(true);
      const next = await waiting;
      measure('handed over in', performance.now() - released, 'ms');
      expect(performance.now() - released).toBeLessThan(SOON_MS);
      expect(await next.release()).toBe(true);
      expect(types([...near.events, ...far.events])).not.toContain('lost');
    },
  );

  fault(
    'frozen until its replica has taken over',
    'a command in flight to it is executed by the new master; nobody enters when the old one wakes up [G32]',
    async (measure) => {
      const { victim, key, open } = await stage(3_000);
      const near = await open();
      const far = await open();
      victim.pause();
      const from = performance.now();
      const lock = await near.engine.acquire(key); // its first command is never read
      measure('acquired after', performance.now() - from, 'ms');
      const waiting = far.engine.acquire(key);
      victim.resume(); // it executes what it has not read yet, and then learns that it is a replica

      await openAdmin(victim.url).ping();
      await sleep(2_000);
      expect(lock.isHeld).toBe(true);
      expect(await far.engine.tryAcquire(key)).toBe(null);
      expect(await lock.release()).toBe(true);
      const next = await waiting;
      expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
      expect(await next.release()).toBe(true);
    },
  );

  fault(
    'killed, replaced, and made the master again',
    'its outage has ended, and does not count when it is back',
    async () => {
      const { cluster, victim, key, open } = await stage(3_000);
      const { engine, events } = await open();
      await victim.kill();
      await (await engine.acquire(key)).release();
      await victim.restart();
      await eventually(async () => {
        const master = await cluster.masterOf(key);
        expect(await cluster.servers.replicasOf(master)).toEqual([victim]);
        expect(await openAdmin(victim.url).info('replication')).toMatch(/master_link_status:up/);
      }, PATIENT_MS);
      await cluster.servers.failover(victim);
      const lock = await engine.acquire(key, { waitMs: 5_000 });
      expect(await cluster.masterOf(key)).toBe(victim);
      expect(await lock.release()).toBe(true);
      expect(await engine.ping()).toBeGreaterThan(0);
      expect(types(events)).toEqual(['store-lost', 'store-back']);
    },
  );

  fault(
    'dead when an application starts',
    'the start waits for the replica to take over',
    async (measure) => {
      const { victim, key, open } = await stage();
      await victim.kill();
      const from = performance.now();
      const { engine } = await open();
      measure('started after', performance.now() - from, 'ms');
      expect(await (await engine.acquire(key)).release()).toBe(true);
    },
  );
});
