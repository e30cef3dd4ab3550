/** `waitReplicas` in a Redis Cluster: each master waits for its own replicas. */
import { describe, expect, it } from '@jest/globals';
import { RedisCluster, type RedisServer } from 'dev-servers';
import { LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { openAdmin } from '../support/open-locks.js';
import { openReplicatedLocks } from '../support/open-replicated-locks.js';
import { uniqueKey } from '../support/unique-key.js';

/** Longer than a failover. A command may take 5 s, a WAIT half a second. */
const LEASE_MS = 60_000;
const NOT_ACKNOWLEDGED = /only 0 of 1 replicas have acknowledged it within \d+ ms$/;

async function start() {
  const servers = await RedisCluster.start({ nodeTimeoutMs: 2_000 });
  afterTest(() => servers.stop());
  const connection = { cluster: servers.startupNodes };
  const masterOf = async (key: string): Promise<RedisServer> =>
    servers.masterOf(await servers.slotOf(`lock:{${key}}`));
  const replicaOf = async (master: RedisServer): Promise<RedisServer> => {
    const [replica] = await servers.replicasOf(master);
    return replica as RedisServer;
  };
  /** A key that this master has, or does not have. */
  const keyOf = async (master: RedisServer, isThere = true): Promise<string> => {
    for (;;) {
      const key = uniqueKey();
      if (((await masterOf(key)) === master) === isThere) return key;
    }
  };
  /** The token of a lock, as a replica has it. */
  const there = async (key: string): Promise<string | null> => {
    const admin = openAdmin((await replicaOf(await masterOf(key))).url);
    await admin.readonly();
    return admin.get(`lock:{${key}}`);
  };
  return { servers, connection, masterOf, replicaOf, keyOf, there };
}

describe('waitReplicas in a cluster', () => {
  it('counts the replicas of the master that has the key [G38]', async () => {
    const { servers, connection, replicaOf, keyOf, there } = await start();
    const { engine, store } = await openReplicatedLocks(connection, { leaseMs: LEASE_MS });
    const masters = await servers.masters();
    for (const master of masters) {
      const key = await keyOf(master);
      const lock = await engine.acquire(key);
      expect(await there(key)).toContain(store.processId);
      expect(await lock.release()).toBe(true);
    }
    const [master] = masters as [RedisServer];
    const stopped = await keyOf(master);
    const others = await keyOf(master, false);
    (await replicaOf(master)).pause();
    const error = await engine
      .acquire(stopped, { waitMs: 1_000 })
      .catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(LockStoreError);
    expect(String(error)).toMatch(NOT_ACKNOWLEDGED);
    expect(await (await engine.acquire(others)).release()).toBe(true);
  });

  it('applies to renewals while a slot moves, and on the master to which it has moved', async () => {
    const { servers, connection, masterOf, keyOf, there } = await start();
    const { engine, store } = await openReplicatedLocks(connection, { leaseMs: LEASE_MS });
    const [from, to] = (await servers.masters()) as [RedisServer, RedisServer];
    const key = await keyOf(from);
    const slot = await servers.slotOf(`lock:{${key}}`);
    const lock = await engine.acquire(key);

    await servers.beginMove(slot, to);
    await lock.ensureRemaining(LEASE_MS + 10_000);
    expect(lock.remainingMs()).toBeGreaterThan(LEASE_MS);
    await servers.moveKeys(slot);
    await lock.ensureRemaining(LEASE_MS + 20_000);
    await servers.endMove(slot);
    await lock.ensureRemaining(LEASE_MS + 30_000);
    expect(await masterOf(key)).toBe(to);
    // The replica has the lease, but learns a little later that the slot is its master's now.
    await eventually(async () => expect(await there(key)).toContain(store.processId));
    expect(await lock.release()).toBe(true);
  });

  it('a promoted replica has no replicas: held locks are released there, and no new lease counts [G38]', async () => {
    const { servers, connection, replicaOf, keyOf } = await start();
    const { engine, events } = await openReplicatedLocks(connection, { leaseMs: LEASE_MS });
    const [master] = (await servers.masters()) as [RedisServer];
    const replica = await replicaOf(master);
    const [held, other] = [await keyOf(master), await keyOf(master)];
    const lock = await engine.acquire(held);

    await master.kill();
    const onReplica = openAdmin(replica.url);
    await eventually(async () => {
      expect(await onReplica.info('replication')).toContain('role:master');
    }, 40_000);
    expect(lock.isHeld).toBe(true);
    expect(await onReplica.exists(`lock:{${held}}`)).toBe(1);
    await lock.release().catch(() => {}); // the first attempt may go to the dead master, and is repeated
    await eventually(async () => expect(await onReplica.exists(`lock:{${held}}`)).toBe(0), 40_000);

    // The outage is over: calls wait for their whole time, and the error says what is missing.
    await eventually(() => expect(events.map(({ type }) => type)).toContain('store-back'), 40_000);
    for (const waitMs of [8_000, 0]) {
      const error = await engine.acquire(other, { waitMs }).catch((reason: unknown) => reason);
      expect(String(error)).toMatch(NOT_ACKNOWLEDGED);
    }
    await master.restart(); // it is a replica now
    const again = await eventually(() => engine.acquire(other), 60_000);
    expect(await again.release()).toBe(true);
  });
});
