/** What becomes of the commands of a batch when its connection or its server is lost. */
import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../../../libs/nestjs-locked/src/core/time/clock.js';
import { requiredReplicas } from '../../../libs/nestjs-locked/src/redis/connection/server/required-replicas.js';
import { RedisLockStore } from '../../../libs/nestjs-locked/src/redis/redis-lock-store.js';
import { afterTest } from '../../support/after-test.js';
import { eventually } from '../../support/eventually.js';
import { startMasterAndReplica } from '../../support/master-and-replica.js';
import { openAdmin } from '../../support/open-locks.js';
import { startRedisServer, useRedisServer } from '../../support/own-redis.js';
import { RedisMonitor } from '../../support/redis-monitor.js';
import { StoreEvents } from '../../support/store-events.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { uniqueKey } from '../../support/unique-key.js';

/** A command may take half a second. */
const SHORT_LEASE_MS = 1_500;
/** A command may take five seconds. */
const LEASE_MS = 60_000;

async function openStore(url: string, leaseMs = LEASE_MS, waitReplicas = 0) {
  const client = new Redis(url, { lazyConnect: true });
  const replicas = requiredReplicas(waitReplicas);
  const settings = { clock: systemClock, keyPrefix: 'lock:', leaseMs, replicas };
  const store = new RedisLockStore({ client, ...settings, closeClient: async () => {} });
  await store.open(new StoreEvents());
  afterTest(() => store.close());
  let count = 0;
  const locks = (size: number) =>
    Array.from({ length: size }, () => ({
      key: uniqueKey(),
      token: `${store.processId}:${++count}`,
    }));
  type Locks = ReturnType<typeof locks>;
  return {
    store,
    locks,
    acquire: (all: Locks) =>
      Promise.all(all.map((lock) => store.acquire({ ...lock, leaseMs: LEASE_MS, nowait: true }))),
    release: (all: Locks) => Promise.all(all.map((lock) => store.release({ ...lock, used: 0 }))),
  };
}

const all = (count: number, reply: object) =>
  Array<unknown>(count).fill(expect.objectContaining(reply));

/** Scripts of clients, by the number of their locks. */
async function sentBy(monitor: RedisMonitor): Promise<number[]> {
  const scripts = (await monitor.commands()).filter(
    ({ source, name, args }) =>
      source !== 'lua' && /^eval/.test(name) && !String(args[2]).includes('{probe:'),
  );
  return scripts.map(({ args }) => Number(args[1]) / 4);
}

describe('a batch', () => {
  const server = useRedisServer();

  it('cut before it was sent is sent on the next connection', async () => {
    const proxy = await TcpProxy.start(server.port);
    const { acquire, locks } = await openStore(proxy.url);
    const monitor = await RedisMonitor.start(server.port);
    const asked = locks(16);
    proxy.cut();
    await sleep(5);

    expect(await acquire(asked)).toEqual(all(16, { kind: 'granted' }));
    expect(await sentBy(monitor)).toEqual([4, 4, 4, 4]);
  });

  it('whose answer was lost is sent again, and answers as if it had been sent once', async () => {
    const proxy = await TcpProxy.start(server.port);
    const { acquire, release, locks } = await openStore(proxy.url);
    const [held, asked] = [locks(8), locks(8)];
    await acquire(held);
    const monitor = await RedisMonitor.start(server.port);

    proxy.swallowAnswersOfOldest();
    const replies = Promise.all([acquire(asked), release(held)]);
    await eventually(async () => {
      for (const { key } of asked) expect(await server.admin.exists(`lock:{${key}}`)).toBe(1);
    });
    proxy.cut();

    const [acquired, released] = await replies;
    expect(released).toEqual(all(8, { kind: 'released' }));
    expect(acquired).toEqual(all(8, { kind: 'granted' }));
    expect(acquired).toMatchObject(asked.map(({ token }) => ({ token })));
    expect(await sentBy(monitor)).toEqual(Array(8).fill(4));
  });

  it('that is never answered leaves each of its commands unknown, and each can be taken back', async () => {
    const own = await startRedisServer();
    const { acquire, store, locks } = await openStore(own.url, SHORT_LEASE_MS);
    const asked = locks(4);
    own.pause();
    const replies = await acquire(asked);
    expect(replies).toEqual(all(4, { kind: 'unknown' }));
    expect(replies.filter((reply) => 'neverRan' in reply)).toEqual([]);
    own.resume();

    const admin = openAdmin(own.url);
    await eventually(async () => {
      const left = asked.map(({ key, token }) => ({ key, tokens: [token] as const }));
      expect(await Promise.all(store.takeBack(left))).toEqual(all(4, { kind: 'left' }));
    });
    const keys = asked.map(({ key }) => `lock:{${key}}`);
    expect(await admin.exists(...keys)).toBe(0);
  });

  it('whose time is over before there is a connection is never sent', async () => {
    const own = await startRedisServer();
    const { acquire, locks } = await openStore(own.url, SHORT_LEASE_MS);
    const asked = locks(6);
    await own.kill();
    await sleep(50);
    expect(await acquire(asked)).toEqual(all(6, { kind: 'unknown', neverRan: true }));

    await own.restart();
    await eventually(async () =>
      expect(await acquire(locks(4))).toEqual(all(4, { kind: 'granted' })),
    );
    const keys = asked.map(({ key }) => `lock:{${key}}`);
    expect(await openAdmin(own.url).exists(...keys)).toBe(0);
  });

  it.each([
    ['READONLY', 'yes'],
    ['MASTERDOWN', 'no'],
  ])(
    'on a server that says %s has not run, and runs when it is a master again',
    async (_, stale) => {
      const own = await startRedisServer('--replica-serve-stale-data', stale);
      const admin = openAdmin(own.url);
      const { acquire, release, locks } = await openStore(own.url);
      const [held, lost, first, asked] = [locks(2), locks(1), locks(1), locks(4)];
      await acquire(held);
      await admin.replicaof('127.0.0.1', 1);

      const replies = Promise.all([acquire(first), release(held), release(lost), acquire(asked)]);
      await sleep(300);
      await admin.replicaof('NO', 'ONE');

      expect(await replies).toEqual([
        all(1, { kind: 'granted' }),
        all(2, { kind: 'released' }),
        all(1, { kind: 'lost' }), // which it would not say if the batch might have run before
        all(4, { kind: 'granted' }),
      ]);
    },
  );

  it('needs one WAIT, and ends with it', async () => {
    const servers = await startMasterAndReplica();
    const { master, onMaster } = servers;
    const { acquire, release, locks } = await openStore(master.url, LEASE_MS, 1);
    const [held, asked] = [locks(4), locks(4)];
    await acquire(held);
    const monitor = await RedisMonitor.start(master.port);

    expect(await acquire(asked)).toEqual(all(4, { kind: 'granted' }));
    const waits = (await monitor.commands()).filter(({ name }) => name === 'wait');
    expect(waits).toHaveLength(1);

    servers.cutLink();
    expect(await release(held)).toEqual(all(4, { kind: 'released' }));
    const late = locks(4);
    expect(await acquire(late)).toEqual(all(4, { kind: 'unknown' }));
    expect(await onMaster.exists(...late.map(({ key }) => `lock:{${key}}`))).toBe(4);
  });
});
