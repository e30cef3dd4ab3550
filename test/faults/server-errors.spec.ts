import { beforeEach, describe, expect } from '@jest/globals';
import { NestFactory } from '@nestjs/core';
import type { Redis } from 'ioredis';
import { LockStoreError, RedisLockModule } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../support/eventually.js';
import { FaultProxy } from '../support/fault-proxy.js';
import { fault } from '../support/fault-report.js';
import { sharedNow } from '../support/lock-process.js';
import { openAdmin, openLocks } from '../support/open-locks.js';
import { startRedisServer, useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 3_000;
const WAIT_MS = 500;
/** Upper bound for what takes milliseconds on an idle machine. */
const SOON_MS = 5_000;

const server = useRedisServer({
  args: [
    ...['--enable-debug-command', 'yes', '--loading-process-events-interval-bytes', '1024'],
    ...['--repl-diskless-sync-delay', '0'],
  ],
});
let key: string;

beforeEach(() => {
  key = uniqueKey();
});

/** A setting that makes Redis refuse commands until it is undone. */
interface Refusal {
  readonly says: string;
  readonly begin: (admin: Redis) => Promise<void>;
  readonly end: (admin: Redis) => Promise<void>;
}

const refusals: readonly Refusal[] = [
  {
    says: 'READONLY',
    begin: async (admin) => void (await admin.replicaof('127.0.0.1', 1)),
    end: async (admin) => void (await admin.replicaof('NO', 'ONE')),
  },
  {
    says: 'OOM',
    begin: async (admin) => void (await admin.config('SET', 'maxmemory', '1')),
    end: async (admin) => void (await admin.config('SET', 'maxmemory', '0')),
  },
  {
    says: 'LOADING',
    begin: async (admin) => {
      await admin.eval(
        `for i = 1, 4000 do redis.call('SET', 'load:' .. i, string.rep('x', 400)) end`,
        0,
      );
      await admin.config('SET', 'rdbcompression', 'no');
      await admin.config('SET', 'key-load-delay', '1000'); // microseconds per key
      const other = openAdmin(server.url); // it replies once everything is loaded
      other.call('DEBUG', 'RELOAD').catch(() => {});
      await eventually(async () => expect(await admin.info('persistence')).toMatch(/^loading:1/m));
    },
    end: async (admin) => {
      await admin.config('SET', 'key-load-delay', '0').catch(() => {});
      await eventually(async () => expect(await admin.info('persistence')).toMatch(/^loading:0/m));
      await admin.config('SET', 'key-load-delay', '0');
    },
  },
];

describe('Redis refuses', () => {
  for (const { says, begin, end } of refusals) {
    fault(says, 'retried within the wait, with a typed error at its end', async (measure) => {
      const { engine } = await openLocks(server.url, { leaseMs: LEASE_MS });
      const admin = openAdmin(server.url);
      await begin(admin);
      try {
        const from = sharedNow();
        const patient = engine.acquire(key, { waitMs: 25_000 });
        const error = await engine.acquire(uniqueKey(), { waitMs: WAIT_MS }).then(
          () => undefined,
          (reason: unknown) => reason,
        );
        const ms = sharedNow() - from;
        expect(error).toBeInstanceOf(LockStoreError);
        expect((error as Error).message).toContain(says);
        expect(ms).toBeGreaterThan(WAIT_MS / 2);
        expect(ms).toBeLessThan(10 * WAIT_MS);

        await end(admin);
        const ended = sharedNow();
        const lock = await patient;
        const after = sharedNow() - ended;
        expect(after).toBeLessThan(2 * SOON_MS); // attempts are at most 1 s apart
        expect(lock.isHeld).toBe(true);
        expect(await lock.release()).toBe(true);
        measure('error after', ms, `ms of ${WAIT_MS}`);
        measure('entered', Math.max(0, after), 'ms after the end of it');
      } finally {
        await end(admin);
      }
    });
  }

  fault('NOSCRIPT', 'not noticed [D144]', async (measure) => {
    const { engine, events } = await openLocks(server.url, { leaseMs: LEASE_MS });
    const admin = openAdmin(server.url);
    let slowest = 0;
    for (let i = 0; i < 50; i++) {
      const from = sharedNow();
      await admin.script('FLUSH');
      const lock = await engine.acquire(key, { waitMs: 0 });
      await admin.script('FLUSH');
      expect(await lock.release()).toBe(true);
      slowest = Math.max(slowest, sharedNow() - from);
    }
    expect(events).toEqual([]);
    expect(slowest).toBeLessThan(SOON_MS);
    measure('slowest lock and release', slowest, 'ms');
  });

  fault(
    'out of memory while locks are held and waited for',
    'still renewed and handed over',
    async (measure) => {
      const leaseMs = 1_500;
      const first = await openLocks(server.url, { leaseMs });
      const second = await openLocks(server.url, { leaseMs });
      const admin = openAdmin(server.url);
      const lock = await first.engine.acquire(key);
      const waiting = second.engine.acquire(key, { waitMs: 20_000 });
      await eventually(async () => expect(await admin.zcard(`lock:{${key}}:queue`)).toBe(1));

      await admin.config('SET', 'maxmemory', '1');
      try {
        await sleep(2 * leaseMs);
        expect(lock.isHeld).toBe(true);
        const from = sharedNow();
        expect(await lock.release()).toBe(true);
        const next = await waiting;
        const ms = sharedNow() - from;
        expect(await next.release()).toBe(true);
        expect(await admin.exists(`lock:{${key}}`)).toBe(0);
        expect(ms).toBeLessThan(SOON_MS);
        measure('handed over in', ms, 'ms');
      } finally {
        await admin.config('SET', 'maxmemory', '0');
      }
    },
  );
});

describe('a replica takes over', () => {
  fault(
    'FAILOVER to a replica',
    'lock kept, waiters served in their order, tokens rise [R48, G23]',
    async (measure) => {
      const replica = await startRedisServer();
      const proxy = await FaultProxy.start(server.port);
      const admin = openAdmin(server.url);
      const replicaAdmin = openAdmin(replica.url);
      await replicaAdmin.replicaof('127.0.0.1', server.port);
      await eventually(async () =>
        expect(await replicaAdmin.info('replication')).toMatch(/^master_link_status:up/m),
      );
      const holder = await openLocks(proxy.url, { leaseMs: LEASE_MS, localHandovers: 0 });
      const waiter = await openLocks(proxy.url, { leaseMs: LEASE_MS, localHandovers: 0 });
      const lock = await holder.engine.acquire(key);
      const entered: number[] = [];
      const waits = [waiter, holder].map(async ({ engine }, i) => {
        await sleep(i * 300);
        await engine.withLock(key, { waitMs: 25_000 }, ({ fencingToken }) => {
          entered.push(fencingToken);
        });
      });
      await eventually(async () => expect(await admin.zcard(`lock:{${key}}:queue`)).toBe(1));
      await sleep(400);

      const from = sharedNow();
      await admin.call('FAILOVER', 'TIMEOUT', '10000');
      await eventually(async () =>
        expect(await replicaAdmin.info('replication')).toMatch(/^role:master/m),
      );
      await sleep(300); // clients still use the old one, which refuses writes
      proxy.switchTo(replica.port);
      await sleep(1.5 * LEASE_MS);

      expect(lock.isHeld).toBe(true);
      expect(await lock.release()).toBe(true);
      const released = sharedNow();
      await Promise.all(waits);
      const ms = sharedNow() - released;
      expect(entered).toHaveLength(2);
      expect(entered[0]).toBeGreaterThan(lock.fencingToken);
      expect(entered[1]).toBeGreaterThan(entered[0]!);
      expect([...holder.events, ...waiter.events].filter(({ type }) => type === 'lost')).toEqual(
        [],
      );
      await eventually(async () => expect(await replicaAdmin.exists(`lock:{${key}}`)).toBe(0));
      expect(ms).toBeLessThan(2 * SOON_MS);
      measure('both waiters served within', ms, 'ms of the release');
      measure('lock kept for', released - from, `ms (lease ${LEASE_MS})`);
      await admin.replicaof('NO', 'ONE');
    },
  );

  fault(
    'the master is lost with writes that it had not replicated',
    'the holder is told; a new one has a higher token [R48, G18]',
    async (measure) => {
      const master = await startRedisServer('--repl-diskless-sync-delay', '0');
      const replica = await startRedisServer();
      const proxy = await FaultProxy.start(master.port);
      const replicaAdmin = openAdmin(replica.url);
      await replicaAdmin.replicaof('127.0.0.1', master.port);
      await eventually(async () =>
        expect(await replicaAdmin.info('replication')).toMatch(/^master_link_status:up/m),
      );
      const locks = await openLocks(proxy.url, { leaseMs: LEASE_MS });
      await replicaAdmin.replicaof('NO', 'ONE'); // from here on nothing is replicated
      const lock = await locks.engine.acquire(key);
      const aborted = new Promise<number>((resolve) =>
        lock.signal.addEventListener('abort', () => resolve(sharedNow())),
      );

      await master.kill();
      const from = sharedNow();
      proxy.switchTo(replica.port);
      const told = (await aborted) - from;
      expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'deleted' });
      const next = await locks.engine.acquire(key);
      expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
      expect(told).toBeLessThan(2 * SOON_MS);
      measure('told after', told, 'ms');
    },
  );
});

describe('eviction', () => {
  fault('eviction policy set', 'warning at boot [R9, G12]', async (measure) => {
    const admin = openAdmin(server.url);
    await admin.config('SET', 'maxmemory', '200mb');
    await admin.config('SET', 'maxmemory-policy', 'volatile-lru');
    try {
      const warnings: string[] = [];
      const logger = {
        log: () => {},
        error: () => {},
        warn: (message: string) => void warnings.push(message),
      };
      const app = await NestFactory.createApplicationContext(
        RedisLockModule.forRoot({ connection: server.url }),
        { logger, abortOnError: false },
      );
      await app.close();
      expect(warnings).toHaveLength(1);
      expect(warnings[0]).toMatch(/volatile-lru.*noeviction/);
      measure('warnings', warnings.length);
    } finally {
      await admin.config('SET', 'maxmemory', '0');
      await admin.config('SET', 'maxmemory-policy', 'noeviction');
    }
  });
});
