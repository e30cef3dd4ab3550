/** Failovers with `waitReplicas`, and what they do without it. */
import { describe, expect } from '@jest/globals';
import { RedisReplicaSet, type RedisServer } from 'dev-servers';
import { LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { fault, type Measure } from '../support/fault-report.js';
import { startMasterAndReplica } from '../support/master-and-replica.js';
import { openAdmin } from '../support/open-locks.js';
import { openReplicatedLocks } from '../support/open-replicated-locks.js';
import { uniqueKey } from '../support/unique-key.js';

/** A command times out after 1 s, WAIT after a third of that. Leases are renewed every second. */
const LEASE_MS = 3_000;
/** A command times out after 5 s, WAIT after 500 ms. The lease outlasts a test. */
const LONG_LEASE_MS = 60_000;
const NOT_ACKNOWLEDGED = /only 0 of 1 replicas have acknowledged it within \d+ ms$/;

/** For clients of a master that has no replica yet. */
const alone = { waitReplicas: 0 };

describe('the master is killed, and the replica lacks the last writes', () => {
  fault(
    'killed without waitReplicas',
    'locks that the replica had are kept, and those that it lacked are granted twice [G18]',
    (measure) => play(measure, 0),
  );

  fault(
    'killed with waitReplicas',
    'locks that the replica had are kept, and nobody got those that it lacked [R61, G25]',
    (measure) => play(measure, 1),
  );

  async function play(measure: Measure, waitReplicas: number): Promise<void> {
    const set = await RedisReplicaSet.start();
    afterTest(() => set.stop());
    const [master, replica] = set.servers;
    const onMaster = openAdmin(master.url);
    const connection = { sentinels: [...set.sentinels], name: set.name };
    const { engine } = await openReplicatedLocks(connection, {
      leaseMs: LONG_LEASE_MS,
      waitReplicas,
    });
    const [known, lacked] = [uniqueKey('known'), uniqueKey('lacked')];
    const kept = await engine.acquire(known);
    expect(await onMaster.wait(1, 10_000)).toBe(1);

    replica.pause();
    await onMaster.call('CLIENT', 'KILL', 'TYPE', 'replica'); // later writes do not reach the replica
    const waitMs = waitReplicas === 0 ? 30_000 : 1_000; // with waitReplicas, the wait cannot succeed
    const first = await engine.acquire(lacked, { waitMs }).catch((error: unknown) => error);
    const from = performance.now();
    await master.kill();
    replica.resume();
    await promotedTo(set, replica);
    measure('failed over after', performance.now() - from, 'ms');

    const other = await openReplicatedLocks(replica.url, { ...alone, leaseMs: LONG_LEASE_MS });
    expect(await other.engine.tryAcquire(known)).toBeNull();
    expect(kept.isHeld).toBe(true);
    const second = await other.engine.tryAcquire(lacked);
    expect(second?.isHeld).toBe(true);
    if (waitReplicas === 0) {
      expect(first).toHaveProperty('fencingToken'); // granted, although its holder may know by now that it is lost
    } else {
      expect(first).toBeInstanceOf(LockStoreError);
      expect(String(first)).toMatch(NOT_ACKNOWLEDGED);
    }
  }

  async function promotedTo(set: RedisReplicaSet, replica: RedisServer): Promise<void> {
    const onReplica = openAdmin(replica.url);
    await eventually(async () => {
      expect((await set.master()).port).toBe(replica.port);
      expect(await onReplica.info('replication')).toContain('role:master');
    }, 60_000);
  }
});

describe('the replica is promoted beside a living master', () => {
  fault(
    'promoted without waitReplicas',
    'a process that reaches the old master keeps holding, beside the new holder',
    (measure) => play(measure, 0),
  );

  fault(
    'promoted with waitReplicas',
    'a process that reaches the old master loses the lease before the new master grants it again [R62, G26]',
    (measure) => play(measure, 1),
  );

  async function play(measure: Measure, waitReplicas: number): Promise<void> {
    const { master, replica, onMaster, onReplica } = await startMasterAndReplica();
    const old = await openReplicatedLocks(master.url, { leaseMs: LEASE_MS, waitReplicas });
    const key = uniqueKey();
    const lock = await old.engine.acquire(key);
    let abortedAt = Infinity;
    lock.signal.addEventListener('abort', () => (abortedAt = performance.now()));

    expect(await onMaster.wait(1, 10_000)).toBe(1);
    const from = performance.now();
    await onReplica.replicaof('NO', 'ONE');
    const next = await openReplicatedLocks(replica.url, { ...alone, leaseMs: LEASE_MS });
    const entered = await next.engine.acquire(key, { waitMs: 30_000 });
    const enteredAt = performance.now();
    measure('entered after', enteredAt - from, `ms of ${LEASE_MS}`);
    expect(entered.isHeld).toBe(true);
    if (waitReplicas === 0) {
      expect(lock.isHeld).toBe(true);
      return;
    }
    measure('the old signal aborted', enteredAt - abortedAt, 'ms before that');
    expect(abortedAt).toBeLessThan(enteredAt);
    expect(lock.signal.reason).toMatchObject({ reason: 'expired' });
    expect(old.events).toMatchObject([
      { type: 'renewal-unknown', cause: { message: expect.stringMatching(NOT_ACKNOWLEDGED) } },
      { type: 'lost' },
    ]);
    await expect(old.engine.acquire(key, { waitMs: 0 })).rejects.toThrow();
  }
});

describe('a stopped master continues after its replica was promoted', () => {
  fault(
    'a command was in flight to it',
    'nobody gets what it grants then [R61, G27]',
    async (measure) => {
      const { master, replica, onMaster, onReplica } = await startMasterAndReplica();
      const old = await openReplicatedLocks(master.url, { leaseMs: LONG_LEASE_MS });
      const key = uniqueKey();

      master.pause();
      const late = old.engine.acquire(key, { waitMs: 3_000 }).catch((error: unknown) => error);
      await onReplica.replicaof('NO', 'ONE');
      const next = await openReplicatedLocks(replica.url, { ...alone, leaseMs: LONG_LEASE_MS });
      const lock = await next.engine.acquire(key);
      master.resume();
      await eventually(async () => expect(await onMaster.exists('lock:fence')).toBe(1));
      measure('granted there', 'yes');

      const error = await late;
      expect(error).toBeInstanceOf(LockStoreError);
      expect(String(error)).toMatch(NOT_ACKNOWLEDGED);
      expect(lock.isHeld).toBe(true);
      // The grant of the old master has been taken back.
      await eventually(async () => expect(await onMaster.exists(`lock:{${key}}`)).toBe(0));
    },
  );
});

describe('the replica is away', () => {
  fault(
    'for longer than a lease',
    'nobody gets a lock, the error says why, holders lose theirs on time, and locks work again by themselves [R64, G28]',
    async (measure) => {
      const { master, replica } = await startMasterAndReplica();
      const { engine, events } = await openReplicatedLocks(master.url, { leaseMs: LEASE_MS });
      const held = await engine.acquire(uniqueKey());
      const isLost = new Promise((resolve) => held.signal.addEventListener('abort', resolve));

      const from = performance.now();
      replica.pause();
      const keys = Array.from({ length: 5 }, () => uniqueKey());
      const refused = await Promise.all(
        keys.map((key) => engine.acquire(key, { waitMs: 2_000 }).catch((error: unknown) => error)),
      );
      for (const error of refused) {
        expect(error).toBeInstanceOf(LockStoreError);
        expect(String(error)).toMatch(NOT_ACKNOWLEDGED);
      }
      const once = await engine.acquire(keys[0] as string, { waitMs: 0 }).catch((e: unknown) => e);
      expect(String(once)).toMatch(NOT_ACKNOWLEDGED);
      await isLost;
      const ms = performance.now() - from;
      measure('lost after', ms, `ms of ${LEASE_MS}`);
      expect(ms).toBeLessThan(LEASE_MS + 500);
      expect(held.signal.reason).toMatchObject({ reason: 'expired' });

      const waiting = keys.map((key) => engine.acquire(key, { waitMs: 20_000 }));
      replica.resume();
      const back = performance.now();
      for (const lock of await Promise.all(waiting)) expect(await lock.release()).toBe(true);
      measure('healed after', performance.now() - back, 'ms');
      // Not an outage: the master has always replied.
      expect(events.filter(({ type }) => type === 'store-lost')).toEqual([]);
      await held.release();
    },
  );

  fault(
    'while a key is handed over by message',
    'the next holder enters when the replica is back, not before [R61]',
    async (measure) => {
      const { master, replica, onMaster, onReplica } = await startMasterAndReplica();
      const first = await openReplicatedLocks(master.url, { leaseMs: LONG_LEASE_MS });
      const second = await openReplicatedLocks(master.url, { leaseMs: LONG_LEASE_MS });
      const key = uniqueKey();
      const lock = await first.engine.acquire(key);
      const next = second.engine.acquire(key, { waitMs: 30_000 });
      let hasEntered = false;
      const entered = next.then(() => (hasEntered = true));
      await eventually(async () => expect(await onMaster.zcard(`lock:{${key}}:queue`)).toBe(1));

      replica.pause();
      expect(await lock.release()).toBe(true);
      // The grant was written, its message received, and the renewal that confirms it executed.
      await eventually(async () =>
        expect(await onMaster.pttl(`lock:{${key}}`)).toBeGreaterThan(LONG_LEASE_MS / 2),
      );
      expect(hasEntered).toBe(false);
      const from = performance.now();
      replica.resume();
      await entered;
      measure('entered after', performance.now() - from, 'ms');
      expect(await onReplica.get(`lock:{${key}}`)).toContain(second.store.processId);
      expect(await (await next).release()).toBe(true);
    },
  );
});
