/** Failovers behind one address that break no connection. sentinel.spec.ts tests failovers with sentinels. */
import { describe, expect } from '@jest/globals';
import { Redis } from 'ioredis';
import { Redis as Redis5 } from 'ioredis5';
import type { RedisConnectionOptions } from '../../libs/nestjs-locked/src/redis/connection/server/open-redis.js';
import { eventually } from '../support/eventually.js';
import { fault } from '../support/fault-report.js';
import { keepClient } from '../support/keep-client.js';
import { openAdmin, openLocksOn } from '../support/open-locks.js';
import { startRedisServer } from '../support/own-redis.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { uniqueKey } from '../support/unique-key.js';

/** A command times out after 2 s, and leases are renewed every two seconds. */
const LEASE_MS = 6_000;
/** Too long for a lease to expire, or for a waiter to poll, within the limits below. */
const LONG_LEASE_MS = 60_000;
/** Upper bound for what takes milliseconds on an idle machine. */
const SOON_MS = 3_000;

const isReadOnly = (error: Error): boolean => error.message.includes('READONLY');

describe('one address that leads to another master, with connections left open', () => {
  const connections: readonly (readonly [string, (url: string) => RedisConnectionOptions])[] = [
    ['a URL', (url) => url],
    [
      'a client of ioredis 5',
      (url) => keepClient(new Redis5(url, { reconnectOnError: isReadOnly })),
    ],
    [
      'a client of ioredis 6',
      (url) => keepClient(new Redis(url, { reconnectOnError: isReadOnly })),
    ],
  ];
  for (const [what, connect] of connections) {
    fault(
      `planned failover behind a proxy, ${what}`,
      'commands and inbox follow within a lease; the holder keeps its lock, waiters are served by message',
      async (measure) => {
        const { old, next, proxy } = await pair();
        const near = await openLocksOn(connect(proxy.url), { leaseMs: LEASE_MS });
        const far = await openLocksOn(connect(proxy.url), {
          leaseMs: LONG_LEASE_MS,
          waitMs: 30_000,
        });
        const key = uniqueKey();
        const lock = await near.engine.acquire(key);
        const waiting = far.engine.acquire(key);
        const [onOld, onNext] = [openAdmin(old.url), openAdmin(next.url)];
        await eventually(async () => expect(await onNext.zcard(`lock:{${key}}:queue`)).toBe(1));

        proxy.leadTo(next.port);
        const from = performance.now();
        await onNext.replicaof('NO', 'ONE');
        await onOld.replicaof('127.0.0.1', next.port);

        // Only the renewal is sent, and it is refused.
        const inboxOf = async (admin: Redis, channel: string) =>
          ((await admin.pubsub('NUMSUB', channel)) as [string, number])[1];
        await eventually(async () => expect(await inboxOf(onNext, near.inbox)).toBe(1));
        measure('healed after', performance.now() - from, `ms of ${LEASE_MS}`);
        expect(performance.now() - from).toBeLessThan(LEASE_MS);
        // A command of the other process is enough to return its waiter to the queue.
        await far.store.inspector.inspect(key).catch(() => {});
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
    );
  }

  fault(
    'only the inbox breaks and finds the other master',
    'commands follow it [D4]',
    async (measure) => {
      const { old, next, proxy } = await pair();
      const { engine, inbox } = await openLocksOn(proxy.url, { leaseMs: LEASE_MS });
      const [onOld, onNext] = [openAdmin(old.url), openAdmin(next.url)];
      await onNext.replicaof('NO', 'ONE'); // there are two masters now
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

  /** Starts a master, its replica, and a proxy that leads to the master. */
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
