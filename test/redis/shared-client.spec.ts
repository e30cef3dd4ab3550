/** A Redis client that the application uses for other things as well, and passes to the locks. */
import { describe, expect, it } from '@jest/globals';
import { Redis, type RedisOptions } from 'ioredis';
import { Redis as Redis5 } from 'ioredis5';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import type { LockEvent } from '../../libs/nestjs-locked/src/core/lock-events.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import { systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import { RedisLockStore } from '../../libs/nestjs-locked/src/redis/redis-lock-store.js';
import { afterTest } from '../support/after-test.js';
import { CountingClock } from '../support/counting-clock.js';
import { openAdmin, openLocks } from '../support/open-locks.js';
import { startRedisServer, useRedisServer } from '../support/own-redis.js';
import { StoreEvents } from '../support/store-events.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 900;

type Client = Redis | Redis5;
type Options = Pick<RedisOptions, 'db' | 'lazyConnect' | 'monitor' | 'password' | 'scripts'>;
type Connect = (url: string, options?: Options) => Client;

const versions: readonly (readonly [string, Connect])[] = [
  ['ioredis 5', (url, options = {}) => new Redis5(url, options)],
  ['ioredis 6', (url, options = {}) => new Redis(url, options)],
];

const server = useRedisServer();

function storeOn(client: Client, clock = systemClock): RedisLockStore {
  const closeClient = async (): Promise<void> => {};
  return new RedisLockStore({ client, clock, keyPrefix: 'lock:', leaseMs: LEASE_MS, closeClient });
}

async function locksOn(client: Client) {
  const events: LockEvent[] = [];
  const engine = new LockEngine({
    store: storeOn(client),
    options: resolveServiceOptions({ leaseMs: LEASE_MS }),
    report: (event) => events.push(event),
  });
  await engine.open();
  afterTest(() => engine.close(0));
  return { engine, events };
}

function clientOf(connect: Connect, url = server.url, options?: Options): Client {
  const client = connect(url, options);
  client.on('error', () => {});
  afterTest(() => client.disconnect());
  return client;
}

describe.each(versions)('a client of %s that is shared with the locks', (_version, connect) => {
  it('may select another database: the locks stay in the one that its options name', async () => {
    const client = clientOf(connect, server.url, { db: 2 });
    const { engine, events } = await locksOn(client);
    const key = uniqueKey();
    const lock = await engine.acquire(key);
    await client.select(5);
    await client.set('mine', 'in 5');
    const next = await engine.acquire(uniqueKey());

    await sleep(2 * LEASE_MS); // renewed meanwhile
    const [two, five] = [2, 5].map((db) => openAdmin(`${server.url}/${db}`));
    expect(await two!.exists(`lock:{${key}}`, `lock:{${next.key}}`)).toBe(2);
    expect(await five!.keys('*')).toEqual(['mine']);
    expect(lock.isHeld).toBe(true);
    expect([await lock.release(), await next.release()]).toEqual([true, true]);
    expect(await two!.exists(`lock:{${key}}`, `lock:{${next.key}}`)).toBe(0);
    expect(events).toEqual([]);
    await five!.flushdb();
  });

  it('may be inside a MULTI: neither sees commands of the other', async () => {
    const client = clientOf(connect);
    const { engine, events } = await locksOn(client);
    const key = uniqueKey();

    await client.multi({ pipeline: false });
    await client.set(`app:${key}`, '1');
    const lock = await engine.acquire(key, { waitMs: 0 });
    await client.incr(`app:${key}`);
    expect(await lock.release()).toBe(true);

    expect(await client.exec()).toEqual([
      [null, 'OK'],
      [null, 2],
    ]);
    expect(events).toEqual([]);
  });

  it('may wait in a blocking command: leases are still renewed', async () => {
    const client = clientOf(connect);
    const { engine, events } = await locksOn(client);
    const admin = openAdmin(server.url);
    const key = uniqueKey();
    const lock = await engine.acquire(key);
    const popped = client.blpop(`list:${key}`, 30);

    await sleep(2 * LEASE_MS);
    expect(lock.isHeld).toBe(true);
    expect(await lock.release()).toBe(true);
    expect(await admin.exists(`lock:{${key}}`)).toBe(0);
    expect(events).toEqual([]);
    await admin.rpush(`list:${key}`, 'x');
    expect(await popped).toEqual([`list:${key}`, 'x']);
  });

  it('sends nothing for the locks: they open two connections of their own with its options', async () => {
    const client = clientOf(connect, server.url, { db: 3, lazyConnect: true });
    const admin = openAdmin(server.url);
    const connections = async (): Promise<string[]> =>
      String(await admin.client('LIST'))
        .split('\n')
        .filter((line) => line.includes(' db=3 '));
    const { engine } = await locksOn(client);
    await engine.withLock(uniqueKey(), {}, () => {});
    expect(client.status).toBe('wait'); // it was never connected
    expect(await connections()).toHaveLength(2);
  });

  it('may be subscribed to a channel', async () => {
    const client = clientOf(connect);
    const { engine } = await locksOn(client);
    const channel = uniqueKey('channel');
    await client.subscribe(channel);
    const message = new Promise((resolve) => client.on('message', (_, text) => resolve(text)));

    const lock = await engine.acquire(uniqueKey());
    expect(await lock.release()).toBe(true);
    await openAdmin(server.url).publish(channel, 'hello');
    expect(await message).toBe('hello');
  });

  it('may be closed before the locks: held locks are renewed, released, and free for others', async () => {
    const client = clientOf(connect);
    const { engine, events } = await locksOn(client);
    const other = await openLocks(server.url, { leaseMs: 60_000 });
    const key = uniqueKey();
    const lock = await engine.acquire(key);
    const waiting = other.engine.acquire(key, { waitMs: 30_000 });

    await client.quit();
    await sleep(2 * LEASE_MS);
    expect(lock.isHeld).toBe(true);
    expect(await lock.release()).toBe(true);
    await (await waiting).release();
    await engine.close(0);

    const admin = openAdmin(server.url);
    expect(await admin.exists(`lock:{${key}}`)).toBe(0);
    expect(events).toEqual([]);
  });

  it('gets no listener, however often locks are opened on it [D30]', async () => {
    const client = clientOf(connect);
    await client.ping();
    const listeners = (): unknown =>
      client.eventNames().map((name) => [name, client.listenerCount(name)]);
    const before = listeners();
    for (let round = 1; round <= 3; round++) {
      const store = storeOn(client);
      await store.open(new StoreEvents());
      expect(listeners()).toEqual(before);
      await store.close();
    }
    server.pause();
    afterTest(() => server.resume());
    const store = storeOn(client, new CountingClock(200));
    await expect(store.open(new StoreEvents())).rejects.toMatchObject({
      code: 'LOCK_STORE_FAILED',
    });
    server.resume();
    expect(listeners()).toEqual(before);
  });

  it('may monitor the server, and define scripts with the names of commands', async () => {
    const client = clientOf((url) => {
      const scripts = { evalsha: { lua: 'return 1', numberOfKeys: 0 } };
      return connect(url, { scripts, monitor: true });
    });
    const { engine } = await locksOn(client);
    const lock = await engine.acquire(uniqueKey());
    expect(await lock.release()).toBe(true);
  });

  it('may change its password: the locks reconnect with the new one', async () => {
    const own = await startRedisServer();
    const admin = openAdmin(own.url);
    await admin.config('SET', 'requirepass', 'old');
    const client = clientOf(connect, own.url, { password: 'old' });
    const { engine } = await locksOn(client);
    await (await engine.acquire('warm')).release();

    await admin.config('SET', 'requirepass', 'new');
    client.options.password = 'new';
    await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub');

    const lock = await engine.acquire('x', { waitMs: 10_000 });
    expect(await lock.release()).toBe(true);
  });
});
