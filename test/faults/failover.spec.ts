/** Failovers that break no connection: behind one address, and with sentinels. */
import { afterAll, beforeAll, describe, expect } from '@jest/globals';
import { RedisReplicaSet, type RedisServer } from 'dev-servers';
import { Redis, type RedisOptions } from 'ioredis';
import { Redis as Redis5 } from 'ioredis5';
import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import type { LockEvent } from '../../libs/nestjs-locked/src/core/lock-events.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import { systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import { openRedis } from '../../libs/nestjs-locked/src/redis/connection/open-redis.js';
import type { RedisClient } from '../../libs/nestjs-locked/src/redis/connection/redis-client.js';
import { RedisLockStore } from '../../libs/nestjs-locked/src/redis/redis-lock-store.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { fault } from '../support/fault-report.js';
import { openAdmin } from '../support/open-locks.js';
import { startRedisServer } from '../support/own-redis.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { uniqueKey } from '../support/unique-key.js';

/** A command is waited for 1 s. Renewed every second. */
const LEASE_MS = 3_000;
/** So long that nobody gets in by waiting for an end of a lease, nor by its own look within the limits below. */
const LONG_LEASE_MS = 60_000;
/** Longer than a failover that sentinels carry out. */
const PATIENT_LEASE_MS = 15_000;
/** Bound on what takes milliseconds when the machine is idle. */
const SOON_MS = 3_000;

type Connection = string | RedisOptions | RedisClient;

/** A lock service; `inbox` is its channel. */
async function openLocks(connection: Connection, leaseMs = LEASE_MS) {
  const redis = openRedis(connection);
  const events: LockEvent[] = [];
  const store = new RedisLockStore({
    client: redis.client,
    clock: systemClock,
    keyPrefix: 'lock:',
    leaseMs,
    closeClient: () => redis.close(),
  });
  const options = resolveServiceOptions({ leaseMs, waitMs: 30_000 });
  const engine = new LockEngine({ store, options, report: (event) => events.push(event) });
  await engine.open();
  afterTest(() => engine.close(0));
  return { engine, store, events, inbox: `lock:inbox:${store.processId}` };
}

function keep<C extends { on: (...args: never[]) => unknown; disconnect(): void }>(client: C): C {
  (client as unknown as Redis).on('error', () => {});
  afterTest(() => client.disconnect());
  return client;
}

const isReadOnly = (error: Error): boolean => error.message.includes('READONLY');

describe('one address that leads to another master, with connections left open', () => {
  const connections: readonly (readonly [string, (url: string) => Connection])[] = [
    ['a URL', (url) => url],
    ['a client of ioredis 5', (url) => keep(new Redis5(url, { reconnectOnError: isReadOnly }))],
    ['a client of ioredis 6', (url) => keep(new Redis(url, { reconnectOnError: isReadOnly }))],
  ];
  for (const [what, connect] of connections) {
    fault(
      `planned failover behind a proxy, ${what}`,
      'commands and inbox follow within a lease; the holder keeps its lock, waiters are served by message',
      async (measure) => {
        const { old, next, proxy } = await pair();
        const near = await openLocks(connect(proxy.url));
        const far = await openLocks(connect(proxy.url), LONG_LEASE_MS);
        const key = uniqueKey();
        const lock = await near.engine.acquire(key);
        const waiting = far.engine.acquire(key);
        const [onOld, onNext] = [openAdmin(old.url), openAdmin(next.url)];
        await eventually(async () => expect(await onNext.zcard(`lock:{${key}}:queue`)).toBe(1));

        proxy.leadTo(next.port);
        const from = performance.now();
        await onNext.replicaof('NO', 'ONE');
        await onOld.replicaof('127.0.0.1', next.port);

        // The renewal is refused; nobody else sends anything.
        const inboxOf = async (admin: Redis, channel: string) =>
          ((await admin.pubsub('NUMSUB', channel)) as [string, number])[1];
        await eventually(async () => expect(await inboxOf(onNext, near.inbox)).toBe(1));
        measure('healed after', performance.now() - from, `ms of ${LEASE_MS}`);
        expect(performance.now() - from).toBeLessThan(LEASE_MS);
        // A command of the other process is enough, and its waiter is put back into the queue.
        await far.store.directory.inspect(key).catch(() => {});
        await (await far.engine.acquire(uniqueKey())).release();
        await eventually(async () => expect(await inboxOf(onNext, far.inbox)).toBe(1));
        expect([await inboxOf(onOld, near.inbox), await inboxOf(onOld, far.inbox)]).toEqual([0, 0]);
        expect(lock.isHeld).toBe(true);

        const released = performance.now();
        expect(await lock.release()).toBe(true);
        const entered = await waiting;
        measure('handed over in', performance.now() - released, 'ms');
        expect(performance.now() - released).toBeLessThan(SOON_MS);
        expect(entered.fencingToken).toBeGreaterThan(lock.fencingToken);
        expect(await entered.release()).toBe(true);
        expect(near.events.filter(({ type }) => type === 'lost')).toEqual([]);
      },
      60_000,
    );
  }

  fault(
    'only the inbox breaks and finds the other master',
    'commands follow it',
    async (measure) => {
      const { old, next, proxy } = await pair();
      const { engine, inbox } = await openLocks(proxy.url);
      const [onOld, onNext] = [openAdmin(old.url), openAdmin(next.url)];
      await onNext.replicaof('NO', 'ONE'); // two masters now
      proxy.leadTo(next.port);

      const from = performance.now();
      await onOld.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
      await eventually(async () =>
        expect(await onNext.pubsub('NUMSUB', inbox)).toEqual([inbox, 1]),
      );
      const key = uniqueKey();
      await eventually(async () => {
        const lock = await engine.acquire(key);
        const isThere = await onNext.exists(`lock:{${key}}`);
        await lock.release();
        expect(isThere).toBe(1);
      });
      measure('after', performance.now() - from, 'ms');
      expect(performance.now() - from).toBeLessThan(LEASE_MS);
    },
  );

  /** A master, its replica, and an address that leads to the master. */
  async function pair() {
    const args = ['--repl-diskless-sync-delay', '0'];
    const old = await startRedisServer(...args);
    const next = await startRedisServer(...args, '--replicaof', '127.0.0.1', String(old.port));
    const admin = openAdmin(next.url);
    await eventually(async () =>
      expect(await admin.info('replication')).toContain('master_link_status:up'),
    );
    const proxy = await TcpProxy.start(old.port);
    return { old, next, proxy };
  }
});

describe('three sentinels', () => {
  let set: RedisReplicaSet;
  beforeAll(async () => {
    set = await RedisReplicaSet.start();
  }, 60_000);
  afterAll(() => set?.stop());

  const connections: readonly (readonly [string, () => Connection])[] = [
    ['options', () => ({ sentinels: [...set.sentinels], name: set.name })],
    [
      'a client of ioredis 5 without failoverDetector',
      () => keep(new Redis5({ sentinels: [...set.sentinels], name: set.name })),
    ],
    [
      'a client of ioredis 6 without failoverDetector',
      () => keep(new Redis({ sentinels: [...set.sentinels], name: set.name })),
    ],
  ];
  for (const [what, connection] of connections) {
    fault(
      `planned failover, ${what}`,
      'the old master, which goes on taking commands, grants nothing any more after seconds',
      async (measure) => {
        const old = await set.master();
        // Longer than the sentinels may take: what is tested is where commands go, not how long a lease lasts.
        const near = await openLocks(connection(), PATIENT_LEASE_MS);
        const far = await openLocks(connection(), LONG_LEASE_MS);
        const key = uniqueKey();
        const lock = await near.engine.acquire(key);
        const waiting = far.engine.acquire(key);
        const onOld = openAdmin(old.url);
        await eventually(async () => expect(await onOld.zcard(`lock:{${key}}:queue`)).toBe(1));
        expect(await onOld.wait(1, 20_000)).toBe(1); // what the replica has not got is lost with the failover

        const from = performance.now();
        const next = await set.failOver();
        const onNext = openAdmin(next.url);
        await eventually(async () => {
          for (const { engine, inbox } of [near, far]) {
            expect(await onNext.pubsub('NUMSUB', inbox)).toEqual([inbox, 1]);
            const probe = uniqueKey();
            const held = await engine.acquire(probe);
            const isThere = await onNext.exists(`lock:{${probe}}`);
            await held.release();
            expect(isThere).toBe(1);
          }
        });
        const ms = performance.now() - from;
        measure('moved after', ms, 'ms');
        expect(await onOld.info('replication')).toContain('role:master'); // it would still have granted
        expect(ms).toBeLessThan(8_000); // 11 s without failoverDetector
        expect(lock.isHeld).toBe(true);

        const released = performance.now();
        expect(await lock.release()).toBe(true);
        const entered = await waiting;
        expect(performance.now() - released).toBeLessThan(SOON_MS);
        expect(await entered.release()).toBe(true);
        expect(near.events.filter(({ type }) => type === 'lost')).toEqual([]);
        await followed(old, next);
      },
      90_000,
    );
  }

  fault('closing', 'leaves no connection to a sentinel behind', async () => {
    const { engine, inbox } = await openLocks({ sentinels: [...set.sentinels], name: set.name });
    const watchers = async (): Promise<number> => {
      let count = 0;
      for (const { port } of set.sentinels) {
        const admin = new Redis({ port });
        const list = String(await admin.call('CLIENT', 'LIST', 'TYPE', 'pubsub'));
        count += list.split('\n').filter((line) => line.includes('sub=1')).length;
        admin.disconnect();
      }
      return count;
    };
    await eventually(async () => expect(await watchers()).toBeGreaterThan(0));
    await engine.close(0);
    const admin = openAdmin((await set.master()).url);
    expect(await admin.pubsub('NUMSUB', inbox)).toEqual([inbox, 0]);
    await eventually(async () => expect(await watchers()).toBe(0));
  });

  /** The old master has been told to follow the new one: the next failover may begin. */
  async function followed(old: RedisServer, next: RedisServer): Promise<void> {
    const [onOld, onNext] = [openAdmin(old.url), openAdmin(next.url)];
    await eventually(async () => {
      expect(await onOld.info('replication')).toContain('master_link_status:up');
      expect(await onNext.info('replication')).toContain('connected_slaves:1');
    }, 40_000);
  }
});
