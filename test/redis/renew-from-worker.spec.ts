/** `renewFrom: 'worker'`: a blocked event loop does not lose a lock, and nothing else changes. */
import { afterAll, describe, expect, it, jest } from '@jest/globals';
import { Redis } from 'ioredis';
import { execFileSync, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { LockConfigError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import type { RedisConnectionOptions } from '../../libs/nestjs-locked/src/redis/connection/server/open-redis.js';
import { freePort } from '../../tools/dev-servers/src/free-port.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { LockObserver } from '../support/lock-observer.js';
import { LockProcess } from '../support/lock-process.js';
import { openLocksOn, type OpenOptions } from '../support/open-locks.js';
import { startRedisServer, useRedisServer } from '../support/own-redis.js';
import { SlotRefusingProxy } from '../support/slot-refusing-proxy.js';
import { standStill } from '../support/stand-still.js';
import { uniqueKey } from '../support/unique-key.js';

const PROGRAM = fileURLToPath(
  new URL('../../libs/nestjs-locked/dist/cli/main.js', import.meta.url),
);
const LEASE_MS = 1_000;
const FOR_LONG_MS = 2.5 * LEASE_MS;

afterAll(() => LockProcess.endAll());
const server = useRedisServer();
const observer = new LockObserver(server);

function open(
  options: OpenOptions = {},
  connection: RedisConnectionOptions = server.url,
): ReturnType<typeof openLocksOn> {
  return openLocksOn(connection, { leaseMs: LEASE_MS, renewFrom: 'worker', ...options });
}

/** The worker threads that are started from now on, until the test has ended. */
function startedThreads(): readonly Worker[] {
  const unref = jest.spyOn(Worker.prototype, 'unref');
  afterTest(() => unref.mockRestore());
  return unref.mock.contexts as Worker[];
}

/** The connections of worker threads to the server, as it lists them. */
async function backupConnections(): Promise<string[]> {
  const list = (await server.admin.client('LIST')) as string;
  return list.split('\n').filter((line) => line.includes(' name=lock:backup:'));
}

/** Runs a shell command after a while, also while this process is blocked. */
function meanwhile(afterMs: number, command: string): void {
  spawn('sh', ['-c', `sleep ${afterMs / 1_000}; ${command}`], { stdio: 'ignore' });
}

describe('an event loop that is blocked for two and a half leases', () => {
  it('keeps its lock, under the same token, and nobody else gets in', async () => {
    const { engine, events } = await open();
    const key = uniqueKey();
    const other = await LockProcess.start({ redisUrl: server.url, leaseMs: LEASE_MS });
    const lock = await engine.acquire(key);
    const token = await observer.holder(key);
    const waiting = other.hold(key);
    await observer.waiting(key, 1);

    standStill(FOR_LONG_MS);
    expect(lock.isHeld).toBe(true);
    expect(() => lock.assertHeld()).not.toThrow();
    expect(lock.signal.aborted).toBe(false);
    expect(await observer.holder(key)).toBe(token);
    await sleep(LEASE_MS);

    expect(lock.signal.aborted).toBe(false);
    expect(await observer.holder(key)).toBe(token);
    const releasedAt = Number(process.hrtime.bigint()) / 1e6;
    expect(await lock.release()).toBe(true);
    const { entered, token: number } = await waiting.entered;
    expect(entered).toBeGreaterThan(releasedAt);
    expect(number).toBeGreaterThan(lock.fencingToken);
    expect(events).toEqual([]);
    await waiting.release();
  });

  it('loses it without the option', async () => {
    const { engine, store } = await open({ renewFrom: 'main' });
    expect(store.backup).toBeUndefined();
    const key = uniqueKey();
    const lock = await engine.acquire(key);
    standStill(FOR_LONG_MS);
    expect(lock.isHeld).toBe(false);
    expect(lock.signal.reason).toMatchObject({ reason: 'expired' });
    expect(await observer.holder(key)).toBeNull();
    expect(await backupConnections()).toEqual([]);
  });

  it('keeps 1,000 locks', async () => {
    const { engine } = await open({ leaseMs: 2_000 });
    const keys = Array.from({ length: 1_000 }, () => uniqueKey());
    const locks = await Promise.all(keys.map((key) => engine.acquire(key)));
    standStill(5_000);
    expect(locks.filter(({ isHeld }) => !isHeld)).toEqual([]);
    await Promise.all(locks.map((lock) => lock.release()));
    for (const key of keys) expect(await observer.holder(key)).toBeNull();
  });

  it('releases it right after, and the worker thread does not bring it back', async () => {
    const { engine } = await open();
    for (const name of ['a', 'b', 'c']) {
      const key = uniqueKey(name);
      const lock = await engine.acquire(key);
      standStill(FOR_LONG_MS);
      expect(await lock.release()).toBe(true);
      expect(await observer.holder(key)).toBeNull();
      await sleep(200);
      expect(await observer.holder(key)).toBeNull();
    }
  });

  it('keeps locks with long keys and labels, in another database, with a prefix', async () => {
    const keyPrefix = 'app:';
    const { engine } = await open({}, { port: server.port, db: 3, keyPrefix });
    const admin = new Redis({ port: server.port, db: 3 });
    afterTest(() => admin.disconnect());
    const keys = [1, 2, 3].map(() => 'ключ'.repeat(60) + uniqueKey());
    const label = 'отчёт'.repeat(40);
    const locks = await Promise.all(keys.map((key) => engine.acquire(key, { label })));
    const tokens = await admin.mget(keys.map((key) => `app:lock:{${key}}`));
    standStill(FOR_LONG_MS);
    expect(locks.filter(({ isHeld }) => !isHeld)).toEqual([]);
    expect(await admin.mget(keys.map((key) => `app:lock:{${key}}`))).toEqual(tokens);
    expect(tokens).not.toContain(null);
    await Promise.all(locks.map((lock) => lock.release()));
  });

  it('keeps the locks of two services, and one that begins within the blocking turn', async () => {
    const [one, two] = await Promise.all([open(), open()]);
    const keys = [uniqueKey(), uniqueKey()] as const;
    await one.engine.withLock(keys[0], {}, async (first) => {
      await two.engine.withLock(keys[1], {}, (second) => {
        standStill(FOR_LONG_MS); // the loop has not turned since it was granted
        expect([first.isHeld, second.isHeld]).toEqual([true, true]);
      });
    });
    for (const key of keys) expect(await observer.holder(key)).toBeNull();
  });
});

describe('a loop that is blocked for too long', () => {
  it('loses its lock at maxHoldMs, and others get it a lease later at most', async () => {
    const { engine } = await open({ maxHoldMs: 1_500 });
    const key = uniqueKey();
    const lock = await engine.acquire(key);
    standStill(1_400);
    expect(lock.isHeld).toBe(true);
    standStill(100);
    expect(lock.isHeld).toBe(false);
    standStill(LEASE_MS);
    expect(execFileSync('redis-cli', ['-p', `${server.port}`, 'get', `lock:{${key}}`]).length).toBe(
      1, // the end of the line
    );
    await sleep(1);
    expect(lock.signal.reason).toMatchObject({ reason: 'max-hold' });
  });

  it('learns that its key was deleted', async () => {
    const { engine } = await open();
    const key = uniqueKey();
    const lock = await engine.acquire(key);
    meanwhile(300, `redis-cli -p ${server.port} del 'lock:{${key}}'`);
    standStill(800);
    expect(() => lock.assertHeld()).toThrow(/Cannot tell whether/);
    const { signal } = lock;
    await eventually(() => expect(signal.reason).toMatchObject({ reason: 'deleted' }));
    expect(await observer.holder(key)).toBeNull();
  });

  it('learns of a forceRelease', async () => {
    const { engine } = await open({ leaseMs: 6_000 });
    const key = uniqueKey();
    const lock = await engine.acquire(key);
    const { signal } = lock;
    const release = `'${process.execPath}' '${PROGRAM}' release '${key}' --yes`;
    meanwhile(0, `${release} --redis ${server.url}`);
    standStill(4_000); // the worker thread asks after three seconds
    expect(lock.isHeld).toBe(false);
    // As without a worker thread, the message may come after the answer to the renewal.
    const reason = expect.stringMatching(/^(revoked|deleted)$/);
    await eventually(() => expect(signal.reason).toMatchObject({ reason }));
  });

  it('keeps its lock while Redis is away for less than the lease', async () => {
    const own = await startRedisServer();
    const { engine } = await open({ leaseMs: 3_000 }, own.url);
    const lock = await engine.acquire(uniqueKey());
    meanwhile(1_000, `kill -STOP ${own.pid}; sleep 1; kill -CONT ${own.pid}`);
    standStill(7_500);
    expect(lock.isHeld).toBe(true);
    await lock.release();
  });

  it('keeps its lock while Redis refuses to write for less than the lease', async () => {
    const own = await startRedisServer();
    const { engine } = await open({ leaseMs: 3_000 }, own.url);
    const lock = await engine.acquire(uniqueKey());
    const set = `redis-cli -p ${own.port} config set min-replicas-to-write`;
    meanwhile(0, `${set} 1; sleep 2; ${set} 0`);
    standStill(5_000);
    expect(lock.isHeld).toBe(true);
    await lock.release();
  });

  it('loses its lock when Redis is away for longer', async () => {
    const own = await startRedisServer();
    const { engine } = await open({}, own.url);
    const lock = await engine.acquire(uniqueKey());
    own.pause();
    standStill(FOR_LONG_MS);
    expect(lock.isHeld).toBe(false);
    expect(lock.signal.reason).toMatchObject({ reason: 'expired' });
    own.resume();
  });
});

describe('the worker thread', () => {
  it('sends nothing while the main thread renews', async () => {
    const { engine } = await open();
    const lock = await engine.acquire(uniqueKey());
    await sleep(3 * LEASE_MS);
    expect(lock.isHeld).toBe(true);
    const lines = await backupConnections();
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(/ cmd=(ping|script\|load) /);
    await lock.release();
  });

  it('is replaced when it ends, and the main thread goes on meanwhile', async () => {
    const threads = startedThreads();
    const { engine, events } = await open();
    const lock = await engine.acquire(uniqueKey());
    expect(threads).toHaveLength(1);
    await threads[0]?.terminate();
    await sleep(2 * LEASE_MS);
    expect(lock.isHeld).toBe(true);
    const cause = { message: 'the worker thread that renews leases: it has ended' };
    expect(events).toMatchObject([{ type: 'backup-lost', cause }]);
    await eventually(() => expect(events.map(({ type }) => type)).toContain('backup-back'));
    standStill(FOR_LONG_MS);
    expect(lock.isHeld).toBe(true);
    await lock.release();
  });

  it('connects again, with a new password, and keeps the lock that it was keeping', async () => {
    const own = await startRedisServer();
    const admin = new Redis(own.url);
    const client = new Redis(own.url, { lazyConnect: true });
    afterTest(() => [admin, client].forEach((one) => one.disconnect()));
    const { engine } = await open({}, client);
    const lock = await engine.acquire(uniqueKey());
    await admin.config('SET', 'requirepass', 'new');
    client.options.password = 'new';
    const list = (await admin.client('LIST')) as string;
    const id = /\bid=(\d+).* name=lock:backup:/.exec(list)?.[1] as string;
    await admin.client('KILL', 'ID', id);
    await sleep(500);
    standStill(FOR_LONG_MS);
    expect(lock.isHeld).toBe(true);
    await lock.release();
  });

  it('keeps the keys that its user may still use', async () => {
    const own = await startRedisServer();
    const admin = new Redis(own.url);
    afterTest(() => admin.disconnect());
    await admin.acl('SETUSER', 'locks', 'on', '>pass', '~*', '&*', '+@all');
    const { engine } = await open({}, { port: own.port, username: 'locks', password: 'pass' });
    const locks = await Promise.all(['a', 'b', 'c'].map((key) => engine.acquire(key)));
    const allowed = ['a', 'c'].map((key) => `~lock:{${key}}*`);
    await admin.acl('SETUSER', 'locks', 'resetkeys', ...allowed);
    standStill(FOR_LONG_MS);
    expect(locks.map(({ isHeld }) => isHeld)).toEqual([true, false, true]);
  });

  it('ends with the locks', async () => {
    const { engine } = await open();
    await engine.close(1_000);
    await eventually(async () => expect(await backupConnections()).toEqual([]));
  });

  it('connects with TLS', async () => {
    const folder = fileURLToPath(new URL('../fixtures/tls/', import.meta.url));
    const port = await freePort();
    await startRedisServer(
      ...['--tls-port', `${port}`, '--tls-auth-clients', 'no'],
      ...['--tls-cert-file', join(folder, 'cert.pem'), '--tls-key-file', join(folder, 'key.pem')],
      ...['--tls-ca-cert-file', join(folder, 'cert.pem')],
    );
    const ca = readFileSync(join(folder, 'cert.pem'));
    const { engine } = await open({}, { host: 'localhost', port, tls: { ca } });
    const lock = await engine.acquire(uniqueKey());
    standStill(FOR_LONG_MS);
    expect(lock.isHeld).toBe(true);
    await lock.release();
  });
});

describe('what a worker thread cannot do is refused at the start', () => {
  const refused: readonly (readonly [string, RedisConnectionOptions, RegExp])[] = [
    ['a Redis Cluster', { cluster: [{ host: '127.0.0.1', port: 1 }] }, /with a Redis Cluster/],
    [
      'a function in tls',
      { port: 1, tls: { checkServerIdentity: () => undefined } },
      /with the option 'tls.checkServerIdentity' of connection: it is a function/,
    ],
    ['a function for addresses', { port: 1, natMap: () => null }, /'natMap' of connection/],
    ['a connector', { port: 1, Connector: class {} as never }, /'Connector' of connection/],
  ];
  it.each(refused)('%s', async (_, connection, message) => {
    const opening = open({}, connection);
    await expect(opening).rejects.toThrow(LockConfigError);
    await expect(opening).rejects.toThrow(message);
  });

  it('something in front of several servers, where each lock has a fence of its own', async () => {
    const proxy = await SlotRefusingProxy.start(server.port);
    const opening = open({}, proxy.url);
    await expect(opening).rejects.toThrow(LockConfigError);
    await expect(opening).rejects.toThrow(/with something in front of several servers; use/);
  });

  it('no thread at all', async () => {
    const start = jest.spyOn(Worker.prototype, 'unref').mockImplementation(function (this: Worker) {
      void this.terminate();
      throw new Error('Access to this API has been restricted');
    });
    afterTest(() => start.mockRestore());
    const opening = open();
    await expect(opening).rejects.toThrow(LockConfigError);
    await expect(opening).rejects.toThrow(/has ended at its start: Access to this API has been/);
  });
});
