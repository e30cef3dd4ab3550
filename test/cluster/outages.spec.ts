/** Which outages of a cluster are reported, and that they end. */
import { describe, expect, it } from '@jest/globals';
import type { RedisServer } from 'dev-servers';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import type { LockEvent } from '../../libs/nestjs-locked/src/core/lock-events.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import { systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import { openRedis } from '../../libs/nestjs-locked/src/redis/connection/server/open-redis.js';
import { RedisLockStore } from '../../libs/nestjs-locked/src/redis/redis-lock-store.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { fault } from '../support/fault-report.js';
import { openAdmin, openLocksOn } from '../support/open-locks.js';
import { startRedisCluster, useRedisCluster } from '../support/own-cluster.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 3_000;
/** Bound on what takes a second or two when the machine is idle. */
const PATIENT_MS = 60_000;

describe('a master that the majority has left', () => {
  fault(
    'for longer than a lease',
    'it keeps granting for the node time-out, then refuses; the holder learns of it in time, and the waiter enters afterwards [G41]',
    async (measure) => {
      const cluster = await startRedisCluster({ replicasPerMaster: 0, nodeTimeoutMs: 2_000 });
      const near = await openLocksOn(cluster.connection, { leaseMs: LEASE_MS });
      const far = await openLocksOn(cluster.connection, { leaseMs: LEASE_MS, waitMs: 60_000 });
      const key = uniqueKey();
      const lock = await near.engine.acquire(key);
      const waiting = far.engine.acquire(key);
      waiting.catch(() => {}); // looked at later
      const lonely = await cluster.masterOf(key);
      const onLonely = openAdmin(lonely.url);
      let free = uniqueKey();
      while ((await cluster.masterOf(free)) !== lonely) free = uniqueKey();
      await eventually(async () => expect(await onLonely.zcard(`lock:{${key}}:queue`)).toBe(1));

      const left = performance.now();
      const others = cluster.servers.nodes.filter((node) => node !== lonely);
      for (const node of others) node.pause();
      await eventually(async () => {
        expect(String(await onLonely.cluster('INFO'))).toContain('cluster_state:fail');
      });
      measure('it went on for', performance.now() - left, 'ms');
      const before = performance.now();
      const error = await near.engine.acquire(free, { waitMs: 500 }).catch(String);
      expect(error).toMatch(/^LockStoreError: .*CLUSTERDOWN/);
      await eventually(() => expect(lock.signal.aborted).toBe(true));
      expect(performance.now() - before).toBeLessThan(LEASE_MS);

      for (const node of others) node.resume();
      await eventually(async () => {
        expect(String(await onLonely.cluster('INFO'))).toContain('cluster_state:ok');
      }, PATIENT_MS);
      const whole = performance.now();
      const entered = await waiting;
      measure('the waiter was in after', performance.now() - whole, 'ms');
      expect(performance.now() - whole).toBeLessThan(2 * LEASE_MS);
      expect(entered.fencingToken).toBeGreaterThan(lock.fencingToken);
      expect(await entered.release()).toBe(true);
    },
  );
});

describe('a start that fails', () => {
  fault(
    'because of one master, while another one is lost',
    'when both are back, no outage of that start is left',
    async () => {
      const cluster = await startRedisCluster({ replicasPerMaster: 0, nodeTimeoutMs: 60_000 });
      const [lost, silent] = cluster.servers.nodes as [RedisServer, RedisServer];
      const redis = openRedis(cluster.connection);
      const store = new RedisLockStore({
        client: redis.client,
        clock: systemClock,
        keyPrefix: 'lock:',
        leaseMs: LEASE_MS,
        startMs: 4_000,
        closeClient: () => redis.close(),
      });
      const events: LockEvent[] = [];
      const report = (event: LockEvent): void => void events.push(event);
      const options = resolveServiceOptions({ leaseMs: LEASE_MS });
      const engine = new LockEngine({ store, options, report, clock: systemClock });
      afterTest(() => engine.close(0));

      silent.pause();
      const opening = engine.open().catch((error: unknown) => error);
      await eventually(async () =>
        expect(await openAdmin(lost.url).pubsub('CHANNELS', 'lock:inbox:*')).toHaveLength(1),
      );
      await openAdmin(lost.url).ping(); // the proof has been made
      await lost.kill();
      engine.openLater((await opening) as never);
      silent.resume();
      await lost.restart();

      await eventually(() => expect(events.at(-1)?.type).toBe('store-found'), PATIENT_MS);
      expect(await engine.ping()).toBeGreaterThan(0);
      const types = events.map(({ type }) => type); // one for each reason, until it is found
      expect([...new Set(types)]).toEqual(['store-awaited', 'store-found']);
    },
  );
});

describe('a master that is away while another one refuses renewals', () => {
  it('failed renewals are reported for the other one, not for each key of the one that is away', async () => {
    const cluster = await startRedisCluster({ replicasPerMaster: 0, nodeTimeoutMs: 60_000 });
    const { engine, events } = await openLocksOn(cluster.connection, { leaseMs: 15_000 });
    const away = uniqueKey();
    const lost = await cluster.masterOf(away);
    let elsewhere = uniqueKey();
    while ((await cluster.masterOf(elsewhere)) === lost) elsewhere = uniqueKey();
    const onOther = openAdmin((await cluster.masterOf(elsewhere)).url);
    for (const key of [away, elsewhere]) await engine.acquire(key);
    await lost.kill();
    await eventually(() => expect(events.map(({ type }) => type)).toContain('store-lost'));
    await onOther.config('SET', 'min-replicas-to-write', 1);
    await eventually(() => {
      expect(failedRenewals(events)).toContainEqual({ key: away, isAway: true });
      expect(failedRenewals(events)).toContainEqual({ key: elsewhere, isAway: false });
    });
  });
});

describe('a slot that is refused while every master answers', () => {
  const cluster = useRedisCluster({ replicasPerMaster: 0, requireFullCoverage: false });

  it.each([
    ['a key that was locked before', true],
    ['a key that nobody has locked yet', false],
  ])(
    'an interrupted move, %s: an outage of the slot until the move is ended, which affects no other keys [G42]',
    async (_what, isUsed) => {
      const { engine, events } = await openLocksOn(cluster.connection, { leaseMs: 1_500 });
      const key = uniqueKey();
      const [elsewhere, slot] = [uniqueKey(), await cluster.slotOf(key)];
      if (isUsed) await (await engine.acquire(key)).release();
      await cluster.servers.beginMove(slot, await cluster.otherMaster(key));
      await expect(engine.acquire(key, { waitMs: 0 })).rejects.toMatchObject({
        code: 'LOCK_STORE_FAILED',
      });
      await eventually(() => expect(events.at(-1)).toMatchObject({ type: 'store-lost' }));
      expect(messages(events)).toMatch(
        new RegExp(`^Cannot use slot ${slot} of the cluster: (TRYAGAIN|ASK) .*--cluster fix`),
      );
      await expect(engine.ping()).rejects.toThrow(`Cannot use slot ${slot} of the cluster`);
      await (await engine.acquire(elsewhere)).release();
      await expect(engine.acquire(key, { waitMs: 0 })).rejects.toThrow();
      await sleep(3_000); // it is tried again meanwhile, and reported once
      expect(events.map(({ type }) => type)).toEqual(['store-lost']);

      await cluster.servers.moveKeys(slot);
      await cluster.servers.endMove(slot);
      await eventually(() => expect(events.at(-1)?.type).toBe('store-back'));
      expect(await engine.ping()).toBeGreaterThan(0);
      await (await engine.acquire(key)).release();
      expect(events.map(({ type }) => type)).toEqual(['store-lost', 'store-back']);
    },
  );

  it('no master serves it: an outage of the slot until one does [G42]', async () => {
    const { engine, events } = await openLocksOn(cluster.connection, { leaseMs: 1_500 });
    const key = uniqueKey();
    const slot = await cluster.slotOf(key);
    const owner = await cluster.masterOf(key);
    const admins = cluster.servers.nodes.map(({ url }) => openAdmin(url));
    for (const admin of admins) await admin.call('CLUSTER', 'DELSLOTS', slot);
    await expect(engine.acquire(key, { waitMs: 0 })).rejects.toThrow();
    await eventually(() => expect(events.at(-1)).toMatchObject({ type: 'store-lost' }));
    expect(messages(events)).toMatch(new RegExp(`^Cannot use slot ${slot} of the cluster: `));
    await expect(engine.ping()).rejects.toThrow(`Cannot use slot ${slot} of the cluster`);
    await openAdmin(owner.url).call('CLUSTER', 'ADDSLOTS', slot);
    await eventually(() => expect(events.at(-1)?.type).toBe('store-back'));
    await (await engine.acquire(key)).release();
    expect(await engine.ping()).toBeGreaterThan(0);
  });

  it('no master serves it: that is reported once, not for each key of the slot', async () => {
    const { engine, events } = await openLocksOn(cluster.connection, { leaseMs: 6_000 });
    const key = uniqueKey();
    const [slot, owner] = [await cluster.slotOf(key), await cluster.masterOf(key)];
    await engine.acquire(key);
    const admins = cluster.servers.nodes.map(({ url }) => openAdmin(url));
    for (const admin of admins) await admin.call('CLUSTER', 'DELSLOTS', slot);
    await eventually(() => expect(failedRenewals(events)).toEqual([{ key, isAway: true }]));
    expect(messages(events)).toMatch(new RegExp(`^Cannot use slot ${slot} of the cluster: `));
    await openAdmin(owner.url).call('CLUSTER', 'ADDSLOTS', slot);
    await eventually(() => expect(events.map(({ type }) => type)).toContain('store-back'));
  });
});

function messages(events: readonly LockEvent[]): string {
  return events.map((event) => ('cause' in event ? event.cause.message : '')).join('\n');
}

function failedRenewals(events: readonly LockEvent[]): { key: string; isAway: boolean }[] {
  return events.flatMap((event) =>
    event.type === 'renewal-unknown' ? [{ key: event.key, isAway: event.isAway }] : [],
  );
}
