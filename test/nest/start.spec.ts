/** What happens when Redis is away at the start, and what a refused start says. */
import { describe, expect, it, jest } from '@jest/globals';
import { type DynamicModule, type INestApplicationContext, Injectable } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  LockConfigError,
  Locked,
  LockService,
  LockStoreError,
  RedisLockModule,
  type RedisLockModuleOptions,
} from 'nestjs-locked';
import { readFileSync } from 'node:fs';
import { type AddressInfo, connect, type Server, type Socket } from 'node:net';
import { createServer } from 'node:tls';
import { afterTest } from '../support/after-test.js';
import { connectAdmin } from '../support/connect-admin.js';
import { eventually } from '../support/eventually.js';
import { startNest } from '../support/nest-app.js';
import { startRedisServer, useRedisServer } from '../support/own-redis.js';
import { RecordingLogger } from '../support/recording-logger.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { uniqueKey } from '../support/unique-key.js';

const server = useRedisServer();

@Injectable()
class Stock {
  runs = 0;

  @Locked('stock:<id>')
  async take(id: string): Promise<string> {
    this.runs += 1;
    return Promise.resolve(id);
  }
}

async function failure(promise: Promise<unknown>): Promise<Error & { ms: number }> {
  const from = performance.now();
  const error = await promise.then(
    () => new Error('it did not fail'),
    (reason: unknown) => reason as Error,
  );
  return Object.assign(error, { ms: performance.now() - from });
}

describe('startMs', () => {
  it('is how long the start waits for Redis', async () => {
    const away = await startRedisServer();
    await away.kill();
    const options = { connection: away.url, startMs: 300 };
    const error = await failure(startNest({ imports: [RedisLockModule.forRoot(options)] }));
    expect(error).toBeInstanceOf(LockStoreError);
    expect(error.message).toMatch(/^Cannot connect within \d+ ms, at redis:\/\/127\.0\.0\.1:\d+: /);
    expect(Number(/\d+/.exec(error.message)?.[0])).toBeGreaterThanOrEqual(300);
    expect(error.ms).toBeLessThan(8_000); // the default is ten seconds
  });

  it('does not pass before Redis has answered, because the timers of a test are fake', async () => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask'] }); // as Vitest does
    afterTest(() => jest.useRealTimers());
    const app = await startNest({ imports: [RedisLockModule.forRoot({ connection: server.url })] });
    await expect(app.get(LockService).withLock(uniqueKey(), () => 'held')).resolves.toBe('held');
    jest.useRealTimers();
  });

  it('lets the start wait for a Redis server that comes later', async () => {
    const late = await startRedisServer();
    await late.kill();
    const options = { connection: late.url, startMs: 30_000 };
    const starting = startNest({ imports: [RedisLockModule.forRoot(options)] });
    setTimeout(() => void late.restart(), 300);
    const app = await starting;
    await expect(app.get(LockService).withLock(uniqueKey(), () => 'held')).resolves.toBe('held');
  });
});

describe('what the log says of a start', () => {
  async function startLogged(...modules: DynamicModule[]) {
    const logger = new RecordingLogger();
    const root = { module: class Root {}, imports: modules };
    const starting = NestFactory.createApplicationContext(root, { logger, abortOnError: false });
    afterTest(() => starting.then((app) => app.close()).catch(() => {}));
    return { starting, lines: () => logger.lines('nestjs-locked') };
  }

  /** What an orchestrator does that starts Redis with, or after, the application. */
  it('without an outage: that it waits for Redis, where and why, and that it is connected', async () => {
    const late = await startRedisServer();
    await late.kill();
    const lockModule = RedisLockModule.forRoot({ connection: late.url, startMs: 60_000 });
    const { starting, lines } = await startLogged(lockModule);
    const waits = `warn Waiting for Redis at ${late.url}: connect ECONNREFUSED 127.0.0.1:${late.port}; check the address in 'connection', and that Redis runs`;
    await eventually(() => expect(lines()).toEqual([waits]));
    await late.restart();
    await starting;
    expect(lines()).toEqual([waits, expect.stringMatching(connectedTo(late.url))]);
  });

  it('nothing if Redis is there', async () => {
    const { starting, lines } = await startLogged(
      RedisLockModule.forRoot({ connection: server.url }),
    );
    await starting;
    expect(lines()).toEqual([]);
  });

  it('once, if Redis never comes: the error of the start says the rest', async () => {
    const away = await startRedisServer();
    await away.kill();
    const lockModule = RedisLockModule.forRoot({ connection: away.url, startMs: 2_000 });
    const { starting, lines } = await startLogged(lockModule);
    await expect(starting).rejects.toThrow(`Cannot connect within`);
    expect(lines()).toEqual([expect.stringMatching(/^warn Waiting for Redis at .*ECONNREFUSED/)]);
  });

  it('of a server that accepts connections, and says nothing', async () => {
    const proxy = await TcpProxy.start(server.port);
    proxy.silenceNewest({ alsoToCome: true });
    const lockModule = RedisLockModule.forRoot({ connection: proxy.url, startMs: 60_000 });
    const { starting, lines } = await startLogged(lockModule);
    const waits = `warn Waiting for Redis at ${proxy.url}: it has not answered yet`;
    await eventually(() => expect(lines()).toEqual([waits]));
    proxy.heal();
    proxy.cut();
    await starting;
    expect(lines().at(-1)).toMatch(connectedTo(proxy.url));
  });

  it('of each of several services, one after the other', async () => {
    const servers = [await startRedisServer(), await startRedisServer()];
    for (const one of servers) await one.kill();
    const modules = servers.map(({ url }, i) =>
      RedisLockModule.forRoot({ name: `service-${i}`, connection: url, startMs: 60_000 }),
    );
    const { starting, lines } = await startLogged(...modules);
    for (const one of servers) {
      const waits = `warn Waiting for Redis at ${one.url}: connect ECONNREFUSED`;
      await eventually(() => expect(lines().at(-1)).toContain(waits));
      await one.restart();
    }
    await starting;
    for (const { url } of servers)
      expect(lines()).toContainEqual(expect.stringMatching(connectedTo(url)));
    expect(lines()).toHaveLength(4);
  });

  it.each<[string, (port: number) => RedisLockModuleOptions['connection'], string]>([
    [
      'a cluster',
      (port) => ({
        cluster: [{ host: '127.0.0.1', port }, `redis://app:secret@127.0.0.1:${port}`],
      }),
      'the Redis Cluster of 127.0.0.1:<port>, 127.0.0.1:<port>',
    ],
    [
      'sentinels',
      (port) => ({ sentinels: [{ host: '127.0.0.1', port }], name: 'mymaster' }),
      "master 'mymaster' of the sentinels 127.0.0.1:<port>",
    ],
  ])('of %s', async (_, connection, address) => {
    const away = await startRedisServer();
    await away.kill();
    const options = { connection: connection(away.port), startMs: 2_000 };
    const { starting, lines } = await startLogged(RedisLockModule.forRoot(options));
    await expect(starting).rejects.toBeInstanceOf(LockStoreError);
    const at = address.replaceAll('<port>', `${away.port}`);
    expect(lines()[0]).toMatch(`warn Waiting for Redis at ${at}: `);
    expect(lines()[0]).toContain('ECONNREFUSED');
    await expect(starting).rejects.toThrow(`ms, at ${at}: `);
  });
});

function connectedTo(url: string): RegExp {
  return new RegExp(`^log Connected to Redis at ${url} after \\d+ ms$`);
}

describe('startWithoutRedis', () => {
  async function startWithout({ startMs = 50, delayMs = 0 } = {}, ...args: string[]) {
    const logger = new RecordingLogger();
    const redis = await startRedisServer(...args);
    await redis.kill();
    const proxy = delayMs > 0 ? await TcpProxy.start(redis.port) : undefined;
    proxy?.delayAnswers(delayMs, { alsoToCome: true });
    const connection = (proxy ?? redis).url;
    const options = { connection, startMs, startWithoutRedis: true };
    const root = {
      module: class Root {},
      imports: [RedisLockModule.forRoot(options)],
      providers: [Stock],
    };
    const app = await NestFactory.createApplicationContext(root, { logger, abortOnError: false });
    afterTest(() => app.close());
    return { redis, app, logger };
  }

  async function isServed(app: INestApplicationContext): Promise<void> {
    const id = uniqueKey();
    await eventually(async () => expect(await app.get(Stock).take(id)).toBe(id));
    expect(await app.get(LockService).ping()).toBeGreaterThan(0);
  }

  it('starts, refuses every call at once without running it, and serves as soon as Redis is there', async () => {
    const { redis, app, logger } = await startWithout();
    const [locks, stock] = [app.get(LockService), app.get(Stock)];
    for (const call of [
      stock.take('a'),
      locks.acquire('k'),
      locks.tryAcquire('k'),
      locks.tryAcquire(['k', 'l']),
      locks.ping(),
    ]) {
      const error = await failure(call);
      expect(error).toBeInstanceOf(LockStoreError);
      expect(error.message).toMatch(
        /^redis:\/\/127\.0\.0\.1:\d+ has not been reached for \d+ ms: .*ECONNREFUSED.*; check the address/,
      );
      expect(error.ms).toBeLessThan(5_000); // the default is to wait twice as long
    }
    expect(stock.runs).toBe(0);

    await redis.restart();
    await isServed(app);
    expect(logger.lines('nestjs-locked')).toEqual([
      expect.stringMatching(
        /^warn Waiting for Redis at redis:\/\/127\.0\.0\.1:\d+: .*ECONNREFUSED/,
      ),
      expect.stringMatching(/^log Connected to Redis at redis:\/\/127\.0\.0\.1:\d+ after \d+ ms$/),
    ]);
    const lock = await locks.acquire('who', { label: 'me' });
    expect((await locks.inspect('who'))?.holder).toMatchObject({ pid: process.pid, label: 'me' });
    await lock.release();
  });

  it('finds Redis later even if the start does not wait at all', async () => {
    const { redis, app } = await startWithout({ startMs: 0, delayMs: 50 });
    await redis.restart();
    await isServed(app);
  });

  it('keeps looking while a right is missing, and says so', async () => {
    const withoutChannels = ['--user', 'default', 'on', 'nopass', '~*', 'resetchannels', '+@all'];
    const { redis, app } = await startWithout({}, ...withoutChannels);
    await redis.restart();
    const admin = connectAdmin(redis.url);
    afterTest(() => admin.disconnect());
    await eventually(async () => {
      const { message } = await failure(app.get(LockService).ping());
      expect(message).toContain('the Redis user lacks rights');
    });
    await admin.call('ACL', 'SETUSER', 'default', 'allchannels');
    await isServed(app);
  });

  it('closes at once while it is still looking', async () => {
    const { app } = await startWithout();
    const from = performance.now();
    await app.close();
    expect(performance.now() - from).toBeLessThan(8_000); // the start would look for Redis for ten seconds
    await expect(app.get(LockService).acquire('k')).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
  });
});

describe('a TLS connection that is refused at the start', () => {
  const pem = (name: string): string =>
    readFileSync(new URL(`../fixtures/tls/${name}.pem`, import.meta.url), 'utf8');

  /** Redis behind TLS, with a certificate that no authority has signed. */
  async function behindTls(): Promise<number> {
    const tls = createServer({ key: pem('key'), cert: pem('cert') }, (outer) => {
      const inner: Socket = connect(server.port, '127.0.0.1');
      for (const socket of [outer, inner]) socket.on('error', () => {});
      outer.pipe(inner).pipe(outer);
      outer.on('close', () => inner.destroy());
    });
    tls.on('tlsClientError', () => {});
    return listening(tls);
  }

  async function listening(listener: Server): Promise<number> {
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
    afterTest(() => new Promise<void>((resolve) => void listener.close(() => resolve())));
    return (listener.address() as AddressInfo).port;
  }

  const start = (connection: object | string, startMs = 1_000): Promise<INestApplicationContext> =>
    startNest({ imports: [RedisLockModule.forRoot({ connection, startMs })] });

  it('says why: the certificate is signed by no trusted authority', async () => {
    const error = await failure(start(`rediss://127.0.0.1:${await behindTls()}`));
    expect(error).toBeInstanceOf(LockConfigError);
    expect(error.message).toMatch(
      /^The certificate of rediss:\/\/127\.0\.0\.1:\d+ is signed by no authority that Node knows: self-signed certificate; .*tls: \{ ca \}/,
    );
  });

  it('says why: the server does not speak TLS', async () => {
    const error = await failure(start(`rediss://127.0.0.1:${server.port}`));
    expect(error.message).toMatch(
      /at rediss:.*: Redis did not answer; .*; if this port does not speak TLS, write redis:\/\/ instead/,
    );
  });

  it('says why: the server speaks only TLS', async () => {
    const error = await failure(start(`redis://127.0.0.1:${await behindTls()}`));
    expect(error.message).toMatch(/at redis:.*: (?:the server closes the connection|.*ECONNRESET)/);
  });

  it('succeeds when the certificate is known', async () => {
    const port = await behindTls();
    const app = await start({ host: '127.0.0.1', port, tls: { ca: pem('cert') } }, 10_000);
    await expect(app.get(LockService).withLock(uniqueKey(), () => 'held')).resolves.toBe('held');
  });
});
