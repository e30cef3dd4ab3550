import { describe, expect, it, jest } from '@jest/globals';
import { Cluster, Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../../../libs/nestjs-locked/src/core/time/clock.js';
import { LockConfigError, LockStoreError } from '../../../libs/nestjs-locked/src/index.js';
import type { RedisLockStoreOptions } from '../../../libs/nestjs-locked/src/redis/redis-lock-store.js';
import { RedissonLockStore } from '../../../libs/nestjs-locked/src/redis/redisson/redisson-lock-store.js';
import { afterTest } from '../../support/after-test.js';
import { eventually } from '../../support/eventually.js';
import { openLocksOn, type OpenOptions } from '../../support/open-locks.js';
import { useRedisServer } from '../../support/own-redis.js';
import { StoreEvents } from '../../support/store-events.js';
import { uniqueKey } from '../../support/unique-key.js';

const server = useRedisServer();

function open(options: OpenOptions = {}, connection: string | object = server.url) {
  return openLocksOn(connection, { ...options, layout: 'redisson' });
}

/** Holds the key as Java does, for ten minutes. @returns the field */
async function holdAsJava(key: string): Promise<string> {
  const field = `${randomUUID()}:57`;
  await server.admin.multi().hset(key, field, 1).pexpire(key, 600_000).exec();
  return field;
}

async function releaseAsJava(key: string): Promise<void> {
  await server.admin.multi().del(key).publish(`redisson_lock__channel:{${key}}`, '0').exec();
}

/** How many connections wait for its release. */
async function listenersTo(key: string): Promise<unknown> {
  return (await server.admin.pubsub('NUMSUB', `redisson_lock__channel:{${key}}`))[1];
}

describe('what is kept in Redis', () => {
  it('is the key as it is named, with one field of this process, whose release is published', async () => {
    const { engine, store } = await open({ leaseMs: 20_000 });
    const key = uniqueKey();
    const heard: string[] = [];
    const listener = new Redis(server.url);
    listener.on('message', (channel, message) => heard.push(`${channel} ${message}`));
    await listener.subscribe(`redisson_lock__channel:{${key}}`);

    const lock = await engine.acquire(key, { label: 'Job' });
    const fields = await server.admin.hgetall(key);
    const [field = ''] = Object.keys(fields);
    expect(field).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d{16,}$/);
    expect(field.slice(0, 36).replaceAll('-', '')).toBe(store.processId);
    expect(fields).toEqual({ [field]: '1' });
    const pttl = await server.admin.pttl(key);
    expect(pttl).toBeGreaterThan(19_000);
    expect(pttl).toBeLessThanOrEqual(20_000);
    expect(await server.admin.exists(`lock:{${key}}`)).toBe(0);
    expect(heard).toEqual([]);
    expect(await lock.release()).toBe(true);
    await eventually(() => expect(heard).toEqual([`redisson_lock__channel:{${key}} 0`]));
    expect(await server.admin.exists(key)).toBe(0);
    listener.disconnect();
  });

  it("has the connection's own prefix, as with a NameMapper of Redisson", async () => {
    const { engine } = await open({}, { port: server.port, keyPrefix: 'shop:' });
    const key = uniqueKey();
    const lock = await engine.acquire(key);
    expect(await server.admin.type(`shop:${key}`)).toBe('hash');
    const waiting = engine.acquire(`other:${key}`);
    await (await waiting).release();
    await lock.release();
    await holdAsJava(`shop:${key}`);
    const second = engine.acquire(key);
    await sleep(300);
    await releaseAsJava(`shop:${key}`);
    await (await second).release();
    expect((await engine.inspect(key))?.holder).toBeUndefined();
  });

  it('is renewed, and never shortened', async () => {
    const { engine } = await open({ leaseMs: 900 });
    const key = uniqueKey();
    const lock = await engine.acquire(key);
    await server.admin.pexpire(key, 60_000);
    await sleep(1_500);
    expect(lock.isHeld).toBe(true);
    expect(await server.admin.pttl(key)).toBeGreaterThan(50_000);
    await server.admin.pexpire(key, 900);
    await sleep(1_500);
    expect(await server.admin.exists(key)).toBe(1);
    expect(await lock.release()).toBe(true);
  });

  it('has fencing numbers that rise, under the prefix', async () => {
    const { engine } = await open();
    const other = await open();
    const key = uniqueKey();
    let last = 0;
    for (const { engine: one } of [{ engine }, other, { engine }]) {
      const lock = await one.acquire(key);
      expect(lock.fencingToken).toBeGreaterThan(last);
      last = lock.fencingToken;
      await lock.release();
    }
    expect(Number((await server.admin.get('lock:fence'))?.split(' ')[0])).toBeGreaterThanOrEqual(
      last,
    );
  });
});

describe('the field of somebody else', () => {
  it('is neither released nor renewed, whatever has become of ours', async () => {
    const { engine } = await open({ leaseMs: 900 });
    const key = uniqueKey();
    const lock = await engine.acquire(key);
    await server.admin.del(key);
    const field = await holdAsJava(key);
    await server.admin.pexpire(key, 30_000);
    await eventually(() => expect(lock.isHeld).toBe(false));
    expect(await lock.release()).toBe(false);
    expect(await server.admin.hgetall(key)).toEqual({ [field]: '1' });
    expect(await server.admin.pttl(key)).toBeLessThanOrEqual(30_000);
    await sleep(1_000);
    expect(await server.admin.hgetall(key)).toEqual({ [field]: '1' });
  });

  it('stays if it has come beside ours', async () => {
    const { engine } = await open();
    const key = uniqueKey();
    const lock = await engine.acquire(key);
    await server.admin.hset(key, 'mode', 'read'); // as a read lock of Redisson with this name does
    expect(await lock.release()).toBe(true);
    expect(await server.admin.hgetall(key)).toEqual({ mode: 'read' });
    expect(await engine.tryAcquire(key)).toBeNull();

    await server.admin.del(key);
    await engine.withLock(key, { holdAtLeastMs: 5_000 }, () =>
      server.admin.hset(key, 'mode', 'read'),
    );
    expect(await server.admin.hgetall(key)).toEqual({ mode: 'read' });
  });

  it('stays when a wait ends, by time or by its signal', async () => {
    const { engine } = await open();
    const key = uniqueKey();
    const field = await holdAsJava(key);
    await expect(engine.acquire(key, { waitMs: 300 })).rejects.toMatchObject({
      code: 'LOCK_NOT_ACQUIRED',
    });
    await eventually(async () => expect(await listenersTo(key)).toBe(0));
    await expect(engine.acquire(key, { signal: AbortSignal.timeout(100) })).rejects.toMatchObject({
      code: 'LOCK_ABORTED',
    });
    await eventually(async () => expect(await listenersTo(key)).toBe(0));
    expect(await engine.tryAcquire([key, uniqueKey()])).toBeNull();
    expect(await server.admin.hgetall(key)).toEqual({ [field]: '1' });
    expect(engine.residue).toEqual({ queues: 0, tokens: 0, timers: 0 });
  });
});

describe('a key of another type', () => {
  it('is a typed error, and stays as it is', async () => {
    const { engine } = await open();
    const key = uniqueKey();
    await server.admin.set(key, 'of another client');
    await expect(engine.acquire(key)).rejects.toThrow(LockStoreError);
    await expect(engine.acquire(key)).rejects.toThrow('the key in Redis is of another type');
    await expect(engine.acquire([uniqueKey(), key], { waitMs: 500 })).rejects.toThrow(
      LockStoreError,
    );
    expect(await server.admin.get(key)).toBe('of another client');
  });

  it('that overwrites a lock ends it', async () => {
    const { engine } = await open({ leaseMs: 900 });
    const key = uniqueKey();
    const lock = await engine.acquire(key);
    await server.admin.set(key, 'overwritten');
    await eventually(() => expect(lock.isHeld).toBe(false));
    expect(lock.signal.reason).toMatchObject({ reason: 'deleted' });
    expect(await lock.release()).toBe(false);
    expect(await server.admin.get(key)).toBe('overwritten');
  });
});

describe('waiting', () => {
  it('ends with a message, also on a new connection after the old one was killed', async () => {
    const { engine } = await open();
    const key = uniqueKey();
    await holdAsJava(key);
    const waiting = engine.acquire(key, { waitMs: 20_000 });
    await eventually(async () => expect(await listenersTo(key)).toBe(1));
    await server.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await eventually(async () => expect(await listenersTo(key)).toBe(1));
    await sleep(100);
    const releasedAt = performance.now();
    await releaseAsJava(key);
    const lock = await waiting;
    expect(performance.now() - releasedAt).toBeLessThan(1_000);
    await lock.release();
    await eventually(async () => expect(await listenersTo(key)).toBe(0));
  });

  it('ends if the key was released before the subscription stood', async () => {
    const { engine } = await open();
    const key = uniqueKey();
    await holdAsJava(key);
    const { subscribe } = Redis.prototype as unknown as {
      subscribe: (this: Redis, ...channels: unknown[]) => unknown;
    };
    const spy = jest.spyOn(Redis.prototype, 'subscribe');
    afterTest(() => spy.mockRestore());
    spy.mockImplementation(async function (this: Redis, ...channels: unknown[]) {
      await releaseAsJava(key);
      return subscribe.call(this, ...channels);
    });
    const startedAt = performance.now();
    const lock = await engine.acquire(key, { waitMs: 20_000 });
    expect(performance.now() - startedAt).toBeLessThan(2_000);
    await lock.release();
  });

  it('ends when the lease of the holder is over, which nothing announces', async () => {
    const { engine } = await open();
    const key = uniqueKey();
    await holdAsJava(key);
    await server.admin.pexpire(key, 700);
    const startedAt = performance.now();
    const lock = await engine.acquire(key);
    const tookMs = performance.now() - startedAt;
    expect(tookMs).toBeGreaterThan(600);
    expect(tookMs).toBeLessThan(2_000);
    await lock.release();
  });

  it('of Java ends when a key was kept for a while', async () => {
    const { engine } = await open();
    const key = uniqueKey();
    const heard: string[] = [];
    const listener = new Redis(server.url);
    listener.on('message', (_, message) => heard.push(message));
    await listener.subscribe(`redisson_lock__channel:{${key}}`);
    await engine.withLock(key, { holdAtLeastMs: 600 }, () => {});
    await eventually(() => expect(heard).toEqual(['0']));
    expect(await server.admin.pttl(key)).toBeLessThanOrEqual(600);
    expect(await engine.tryAcquire(key)).toBeNull();
    const lock = await engine.acquire(key);
    await lock.release();
    listener.disconnect();
  });
});

describe('a process that hands a key over and asks for it again', () => {
  it('frees it, and lets others take it for a moment', async () => {
    const client = new Redis(server.url, { lazyConnect: true });
    const options = { client, clock: systemClock, keyPrefix: 'lock:', leaseMs: 30_000 };
    const store = new RedissonLockStore({ ...options, closeClient: async () => {} });
    afterTest(() => store.close());
    const events = new StoreEvents();
    await store.open(events);
    events.log.takeAll();
    const key = uniqueKey();
    const [token, newToken] = [1, 2].map((i) => `${store.processId}:${Date.now()}00${i}`);
    const command = { key, token: token as string, leaseMs: 30_000 };
    await store.acquire({ ...command, nowait: false });
    const reply = await store.requeue({ ...command, used: 0, newToken: newToken as string });
    const repliedAt = performance.now();
    expect(reply).toMatchObject({ kind: 'queued', token: newToken, remainingMs: 10 });
    expect(await events.next()).toMatchObject({ kind: 'grant', token: newToken });
    expect(performance.now() - repliedAt).toBeGreaterThan(9);
  });
});

describe('operators', () => {
  it('see who holds a key, of Java too, and list what is a lock', async () => {
    const { engine, store } = await open();
    const key = uniqueKey();
    const other = await open();
    const lock = await engine.acquire(`${key}:nest`, { label: 'Job' });
    await holdAsJava(`${key}:java`);
    await server.admin.hset(`${key}:data`, 'name', 'x');
    await server.admin.set(`${key}:text`, 'x');
    const held = await other.engine.inspect(`${key}:nest`);
    expect(held).toMatchObject({
      state: 'held',
      holder: { processId: store.processId, pid: process.pid, label: 'Job' },
    });
    const foreign = await other.engine.inspect(`${key}:java`);
    expect(foreign).toMatchObject({ state: 'foreign', holder: undefined });
    const found: string[] = [];
    for await (const info of other.engine.list(`${key}*`)) found.push(info.key);
    expect(found.sort()).toEqual([`${key}:java`, `${key}:nest`]);
    const [overview] = await other.engine.overviews([`${key}*`], 10);
    expect(overview).toMatchObject({ isPartial: false });
    const [all] = await other.store.inspector.survey([`${key}*`], 2);
    expect(all).toMatchObject({ isPartial: false });
    expect(await other.store.inspector.survey([`${key}*`], 1)).toMatchObject([{ isPartial: true }]);
    await lock.release();
  });

  it('take a key from its holder, which is told; others get it a second later', async () => {
    const { engine } = await open();
    const other = await open();
    const key = uniqueKey();
    const lock = await engine.acquire(key);
    const next = other.engine.acquire(key);
    await sleep(200);
    const forcedAt = performance.now();
    expect(await other.engine.forceRelease(key)).toBe(true);
    await eventually(() => expect(lock.isHeld).toBe(false));
    expect(performance.now() - forcedAt).toBeLessThan(900);
    await (await next).release();
    expect(performance.now() - forcedAt).toBeGreaterThan(990);
    expect(await lock.release()).toBe(false);

    await holdAsJava(key);
    expect(await other.engine.forceRelease(key)).toBe(true);
    expect(await other.engine.forceRelease(key)).toBe(false); // nobody has it, although it is kept
    await (await engine.acquire(key)).release();
    expect(await other.engine.forceRelease(key)).toBe(false);
  });

  it('take no key that is no lock: it would be deleted', async () => {
    const { engine } = await open();
    const key = uniqueKey();
    await server.admin.set(`${key}:text`, 'x');
    await server.admin.hset(`${key}:user`, 'name', 'x');
    await server.admin.hset(`${key}:order`, { id: '1', total: '2' });
    for (const name of ['text', 'user', 'order']) {
      const refusal = await engine.forceRelease(`${key}:${name}`).catch((why: unknown) => why);
      expect(refusal).toBeInstanceOf(LockStoreError);
      expect(await server.admin.exists(`${key}:${name}`)).toBe(1);
    }
    await expect(engine.inspect(`${key}:text`)).rejects.toThrow('WRONGTYPE');
    expect(await server.admin.hgetall(`${key}:order`)).toEqual({ id: '1', total: '2' });
    expect(await server.admin.pttl(`${key}:user`)).toBe(-1);
  });
});

describe('what this layout cannot do', () => {
  const options = (): RedisLockStoreOptions => ({
    client: new Redis(server.url, { lazyConnect: true }),
    clock: systemClock,
    keyPrefix: 'lock:',
    leaseMs: 30_000,
    closeClient: async () => {},
  });
  const make = (more: Partial<RedisLockStoreOptions>) => () =>
    new RedissonLockStore({ ...options(), ...more });

  it('is refused at the start', () => {
    const cluster = new Cluster([{ host: '127.0.0.1', port: 1 }], { lazyConnect: true });
    const refused: [Partial<RedisLockStoreOptions>, string][] = [
      [{ client: cluster }, "layout: 'redisson' cannot be used with a Redis Cluster: "],
      [
        { replicas: { replicas: 1, aof: false } },
        "layout: 'redisson' cannot be used with waitReplicas: ",
      ],
      [{ renewFrom: 'worker' }, "layout: 'redisson' cannot be used with renewFrom: 'worker': "],
    ];
    for (const [more, message] of refused) {
      expect(make(more)).toThrow(LockConfigError);
      expect(make(more)).toThrow(message);
    }
  });

  it('is refused before anything is sent', async () => {
    const { engine } = await open();
    const own = await openLocksOn(server.url);
    const key = uniqueKey();
    const handedOver = await (await own.engine.acquire(key)).detach({ forMs: 5_000 });
    const lock = await engine.acquire(key);
    const calls = [
      () => engine.acquire(uniqueKey(), { mode: 'shared' }),
      () => engine.tryAcquire(uniqueKey(), { permits: 2 }),
      () => engine.withLock(uniqueKey(), { mode: () => 'exclusive' }, () => {}),
      () => lock.detach({ forMs: 5_000 }),
      () => engine.adopt(handedOver),
    ];
    for (const call of calls) {
      const error = await (async (): Promise<unknown> => call())().catch((why: unknown) => why);
      expect(error).toBeInstanceOf(LockConfigError);
      expect((error as Error).message).toContain("with layout: 'redisson', ");
    }
    expect(lock.isHeld).toBe(true);
    expect(await lock.release()).toBe(true);
  });
});

describe('the rights of the Redis user', () => {
  const RIGHTS =
    '~lock:* &lock:inbox:* +eval +evalsha +script|load +subscribe +publish +pubsub +ping +info +time +get +set +del +scan +exists +pexpire +pttl +hset +hexists +hdel +hkeys +hlen +unsubscribe';

  it('are as documented', async () => {
    const admin = server.admin;
    const allow = async (name: string, ...more: string[]) => {
      await admin.acl('SETUSER', name, 'reset', 'on', '>pw', ...RIGHTS.split(' '), ...more);
      return `redis://${name}:pw@127.0.0.1:${server.port}`;
    };
    const url = await allow('redisson', '~stock:*', '&redisson_lock__channel:*');
    const { engine } = await open({}, url);
    const key = `stock:${uniqueKey()}`;
    await holdAsJava(key);
    const waiting = engine.acquire(key);
    await sleep(200);
    await releaseAsJava(key);
    await (await waiting).release();
    await expect(engine.acquire('of-others', { waitMs: 500 })).rejects.toMatchObject({
      code: 'LOCK_STORE_FAILED',
    });

    const deaf = await allow('deaf', '~stock:*', '&redisson_lock__channel:*', '-unsubscribe');
    await expect(open({}, deaf)).rejects.toThrow(LockConfigError);
    const mute = await allow('mute', '~stock:*');
    await expect(open({}, mute)).rejects.toThrow('&redisson_lock__channel:*');
  });
});
