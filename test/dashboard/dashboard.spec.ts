/** The dashboard over HTTP, on Express and on Fastify, with a real Redis. */
import { describe, expect, it } from '@jest/globals';
import {
  All,
  Controller,
  Get,
  type INestApplication,
  Module,
  VersioningType,
} from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { ExpressAdapter, type NestExpressApplication } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import {
  LockConfigError,
  LockKeyError,
  type LockOptions,
  LockService,
  RedisLockModule,
} from 'nestjs-locked';
import { LockDashboardModule, type LockDashboardOptions } from 'nestjs-locked/dashboard';
import { LockTestingModule } from 'nestjs-locked/testing';
import { type IncomingMessage, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type {
  LogMessage,
  LookMessage,
  ShownQueue,
} from '../../libs/nestjs-locked/src/dashboard/dashboard-messages.js';
import { OperatorLog } from '../../libs/nestjs-locked/src/dashboard/operator-log.js';
import { EventStream } from '../support/event-stream.js';
import { eventually } from '../support/eventually.js';
import { startHttp, startNest } from '../support/nest-app.js';
import { openLocks } from '../support/open-locks.js';
import { OtherProcesses } from '../support/other-processes.js';
import { useRedisServer } from '../support/own-redis.js';
import { RecordingLogger } from '../support/recording-logger.js';
import { uniqueKey } from '../support/unique-key.js';

const ADAPTERS = {
  Express: () => new ExpressAdapter(),
  Fastify: () => new FastifyAdapter(),
};
type Platform = keyof typeof ADAPTERS;
const PLATFORMS = Object.keys(ADAPTERS) as Platform[];

const server = useRedisServer();

interface Setting {
  readonly platform?: Platform;
  readonly options?: Partial<LockDashboardOptions>;
  readonly configure?: (app: INestApplication) => unknown;
}

/** Routes of the application that lie beside those of the dashboard. */
const NEIGHBOURS = [
  'locks/keys/1',
  'locks/7/locks',
  'locks/7/locks/events',
  'shop/locks',
  'shop/locks/page.js',
  'locks/events/1',
  'locks/locks',
];

@Controller()
class Neighbours {
  @Get('locksmith')
  smith(): string {
    return 'smith';
  }

  @All(NEIGHBOURS)
  below(): string {
    return 'below';
  }
}

const locksModule = (name?: string) =>
  RedisLockModule.forRoot({
    connection: server.url,
    leaseMs: 3_000,
    shutdownMs: 100, // for locks that a test leaves
    ...(name === undefined ? {} : { name, keyPrefix: `${name}:` }),
  });

/** An application in which everybody is an administrator, unless the options say otherwise. */
async function start({ platform = 'Express', options = {}, configure }: Setting = {}) {
  const logger = new RecordingLogger();
  const { app, url } = await startHttp(
    {
      imports: [
        locksModule(),
        LockDashboardModule.register({ path: '/locks', authorize: () => 'admin', ...options }),
      ],
      controllers: [Neighbours],
    },
    (app) => {
      app.useLogger(logger);
      configure?.(app);
    },
    ADAPTERS[platform](),
  );
  return { app, url, logger, locks: app.get(LockService), page: `${url}/locks/` };
}

const SAME_ORIGIN = { 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' };

/** Asks to release a lock, as the page does. */
async function release(page: string, body: unknown, headers: Record<string, string> = SAME_ORIGIN) {
  const response = await fetch(`${page}release`, {
    method: 'POST',
    headers,
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, text };
}

async function confirmed(page: string, key: string) {
  const response = await fetch(`${page}lock?key=${encodeURIComponent(key)}`);
  const { leaseId, fencingToken } = ((await response.json()) as ShownQueue).lock;
  return { key, confirmation: key, leaseId, fencingToken };
}

/** How many keys a database has. */
function keysIn(keyspace: string): number {
  return Number(/^db0:keys=(\d+)/m.exec(keyspace)?.[1] ?? 0);
}

describe.each(PLATFORMS)('on %s', (platform) => {
  it('answers with the page and its files, which run nothing but themselves', async () => {
    const { page } = await start({ platform });
    for (const [name, type] of [
      ['', 'text/html'],
      ['page.css', 'text/css'],
      ['page.js', 'text/javascript'],
    ]) {
      const response = await fetch(page + name);
      expect(response.status).toBe(200);
      expect(response.headers.get('content-type')).toMatch(type as string);
      expect(response.headers.get('x-content-type-options')).toBe('nosniff');
      expect(response.headers.get('content-security-policy')).toBe(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      );
      // A proxy would give it to others.
      expect(response.headers.get('cache-control')).toBe('private, no-cache');
      const etag = response.headers.get('etag') as string;
      const again = await fetch(page + name, { headers: { 'if-none-match': etag } });
      expect([again.status, await again.text()]).toEqual([304, '']);
    }
  });

  it('leads the path without a slash to the one with it', async () => {
    const { url, page } = await start({ platform });
    const response = await fetch(`${url}/locks?token=1`);
    expect(response.url).toBe(`${page}?token=1`);
    expect(await response.text()).toContain('href="page.css?token=1"');
  });

  it('leaves other routes to the application, also those that begin alike', async () => {
    const { url } = await start({ platform, options: { authorize: () => undefined } });
    expect(await (await fetch(`${url}/locksmith`)).text()).toBe('smith');
    expect((await fetch(`${url}/lock`)).status).toBe(404);
    expect((await fetch(`${url}/locks/`)).status).toBe(403);
  });

  it.each(['', 'api', 'locks', 'api/:version'])(
    'answers exactly its own paths, with the prefix "%s"',
    async (prefix) => {
      const { url } = await start({
        platform,
        options: { authorize: () => undefined },
        configure: (app) => prefix !== '' && app.setGlobalPrefix(prefix),
      });
      const base = prefix === '' ? url : `${url}/${prefix.replace(':version', '7')}`;
      const statusOf = async (path: string, method = 'GET') =>
        (await fetch(base + path, { method, redirect: 'manual' })).status;
      for (const end of ['', '?a=1', '?a=/locks/events']) {
        for (const part of ['', '/', '/page.css', '/page.js', '/events', '/lock', '/release']) {
          expect([part, end, await statusOf(`/locks${part}${end}`)]).toEqual([part, end, 403]);
        }
        for (const path of NEIGHBOURS) {
          for (const method of ['GET', 'POST']) {
            const answer = await fetch(`${base}/${path}${end}`, { method });
            expect([path, method, await answer.text()]).toEqual([path, method, 'below']);
          }
        }
        for (const path of [
          '/locks//',
          '/locks/pageXcss',
          '/locks/events/',
          '/7/locks',
          '/locks/page',
        ]) {
          expect([path, await statusOf(path + end)]).toEqual([path, 404]);
        }
      }
      if (prefix !== '') {
        for (const path of ['locks', 'locks/', 'locks/events'].filter(
          (it) => !prefix.startsWith(it),
        ))
          expect([path, (await fetch(`${url}/${path}`)).status]).toEqual([path, 404]);
      }
    },
  );

  it.each([
    [
      'strict routing',
      (app: INestApplication) =>
        platform === 'Express' && (app as NestExpressApplication).set('strict routing', true),
      '',
    ],
    ['a global prefix', (app: INestApplication) => app.setGlobalPrefix('api'), '/api'],
    [
      'a global prefix that leaves it out',
      (app: INestApplication) => app.setGlobalPrefix('api', { exclude: ['locks', 'locks/*part'] }),
      '',
    ],
    [
      'versions in the path',
      (app: INestApplication) =>
        app.setGlobalPrefix('api').enableVersioning({ type: VersioningType.URI }),
      '/api',
    ],
  ])('is mounted with %s', async (_, configure, prefix) => {
    const { url } = await start({ platform, configure });
    const response = await fetch(`${url}${prefix}/locks`);
    expect([response.status, response.url]).toEqual([200, `${url}${prefix}/locks/`]);
    const stream = await EventStream.open(`${url}${prefix}/locks/events`);
    await stream.next('hello');
  });

  it('shows what is held and who waits, and again when that changes', async () => {
    const { page, locks } = await start({ platform });
    const others = new OtherProcesses(server.admin);
    const [own, other] = [uniqueKey('own'), uniqueKey('other')];
    await locks.withLock(own, { label: 'Sale.run' }, async () => {
      await others.hold(other, { label: 'Stock.take', process: 7, agoMs: 5_000, host: 'app-7' });
      await others.wait(other, { label: 'Order.pay', agoMs: 3_000 });
      const stream = await EventStream.open(`${page}events`);
      const look = await stream.next<LookMessage>('look', ({ locks: shown }) => {
        expect(shown.map(({ key }) => key)).toEqual(expect.arrayContaining([own, other]));
      });
      const lockOf = (key: string) => look.locks.find((lock) => lock.key === key);
      expect(look.locks[0]?.key).toBe(other);
      expect(lockOf(other)).toMatchObject({
        holder: { host: 'app-7', pid: 7, label: 'Stock.take' },
        waiters: 1,
        fencingToken: null,
      });
      expect(lockOf(other)?.oldestWaitMs).toBeGreaterThanOrEqual(3_000);
      expect(lockOf(own)).toMatchObject({ holder: { pid: process.pid, label: 'Sale.run' } });
      expect(lockOf(own)?.fencingToken).toBe(locks.current()?.fencingToken);
      await server.admin.del(`lock:{${other}}`);
      await stream.next<LookMessage>('look', ({ locks: shown }) => {
        expect(shown.map(({ key }) => key)).not.toContain(other);
      });
    });
  });

  it('releases a lock for an administrator, and says so on the page and in the log', async () => {
    const authorize = () => ({ role: 'admin', name: 'anna' }) as const;
    const { page, locks, logger } = await start({ platform, options: { authorize } });
    const key = uniqueKey();
    const lock = await locks.acquire(key);
    const stream = await EventStream.open(`${page}events`);
    expect(await release(page, await confirmed(page, key))).toMatchObject({ status: 200 });
    expect(lock.signal.aborted).toBe(true);
    const [entry] = await stream.next<LogMessage>('log', (log) => expect(log).toHaveLength(1));
    expect(entry).toMatchObject({ operator: 'anna', key, result: 'released' });
    expect(logger.lines('nestjs-locked').join('\n')).toContain(
      `Operator 'anna' asked in the dashboard to release lock '${key}', which was taken away`,
    );
  });

  it('ends its streams when the application closes', async () => {
    const { app, page } = await start({ platform });
    const stream = await EventStream.open(`${page}events`);
    await stream.next('look');
    const from = performance.now();
    await app.close();
    expect(performance.now() - from).toBeLessThan(4_000);
    await eventually(() => expect(stream.isEnded).toBe(true));
  });

  it('reads a body that no parser of the application has read', async () => {
    const { page, locks } = await start({
      platform,
      configure: (app) => {
        Object.assign((app as unknown as { appOptions: object }).appOptions, { bodyParser: false });
      },
    });
    const key = uniqueKey();
    await locks.acquire(key);
    expect((await release(page, 'x'.repeat(200_000))).status).toBeGreaterThanOrEqual(400);
    expect((await release(page, '{')).status).toBe(400);
    expect((await release(page, await confirmed(page, key))).status).toBe(200);
  });
});

describe('a body that the application has read', () => {
  const read: Record<string, (app: NestExpressApplication) => unknown> = {
    'as text': (app) => app.useBodyParser('text', { type: '*/*' }),
    'as bytes': (app) => app.useBodyParser('raw', { type: '*/*' }),
    'as JSON that need not be an object': (app) => app.useBodyParser('json', { strict: false }),
    'by somebody who has thrown it away': (app) =>
      app.use((request: IncomingMessage, _: unknown, next: () => void) => {
        request.resume().once('end', next);
      }),
  };

  it.each(Object.keys(read))('%s is understood, or refused', async (how) => {
    const { page, locks, logger } = await start({
      configure: (app) => {
        Object.assign((app as unknown as { appOptions: object }).appOptions, { bodyParser: false });
        read[how]?.(app as NestExpressApplication);
      },
    });
    const key = uniqueKey();
    const lock = await locks.acquire(key);
    for (const body of ['"a"', '7', 'null', '[]', '{}', '""']) {
      expect([body, (await release(page, body)).status]).toEqual([body, 400]);
    }
    const isThere = !how.startsWith('by');
    const { status } = await release(page, await confirmed(page, key));
    expect(status).toBe(isThere ? 200 : 400);
    expect(lock.isHeld).toBe(!isThere);
    expect(logger.lines('nestjs-locked').join()).not.toContain('could not answer');
  });

  it.each(PLATFORMS)('is refused without a stack if it cannot be read, on %s', async (platform) => {
    const { page } = await start({ platform });
    for (const body of ['{', '{"key":', 'x'.repeat(200_000), '\u0000']) {
      const { status, text } = await release(page, body);
      expect([400, 413]).toContain(status);
      expect(text).not.toMatch(/node_modules|\bat |\.js/);
    }
  });
});

describe('who may look', () => {
  it('does not start without authorize, and says what to write', async () => {
    const make = (options: object) =>
      startNest({
        imports: [locksModule(), LockDashboardModule.register(options as LockDashboardOptions)],
      });
    await expect(make({ path: '/locks' })).rejects.toThrow(LockConfigError);
    await expect(make({ path: '/locks' })).rejects.toThrow(
      'Invalid option authorize: undefined must be a function that says who asks',
    );
    await expect(make({ path: '/locks', authorize: 'open' })).rejects.toThrow(LockConfigError);
    await expect(make({ path: 'locks/*', authorize: () => 'read' })).rejects.toThrow(
      "Invalid option path: 'locks/*' must be a path",
    );
    await expect(make({ path: '/locks', authorize: true })).rejects.toThrow(
      'Invalid option authorize: true must be a function that says who asks',
    );
    await expect(make({ path: '/locks', authorize: () => 'read', guard: 1 })).rejects.toThrow(
      LockConfigError,
    );
  });

  it('does not start without options, without such a lock module, or with a mock', async () => {
    await expect(startNest({ imports: [locksModule(), LockDashboardModule] })).rejects.toThrow(
      'LockDashboardModule was imported without options',
    );
    const options: LockDashboardOptions = { path: '/locks', authorize: () => 'read' };
    await expect(
      startNest({
        imports: [locksModule(), LockDashboardModule.register({ ...options, service: 'other' })],
      }),
    ).rejects.toThrow("there is no lock module with the name 'other'");
  });

  it.each(PLATFORMS)('tells nobody anything unless authorize says so, on %s', async (platform) => {
    const { page } = await start({ platform, options: { authorize: () => undefined } });
    for (const part of ['', 'page.js', 'page.css', 'events', 'lock?key=a']) {
      const response = await fetch(page + part);
      expect([response.status, await response.text()]).toEqual([403, 'Forbidden\n']);
    }
    const refused = await fetch(`${page.slice(0, -1)}`, { redirect: 'manual' });
    expect(refused.status).toBe(403);
    expect(await release(page, {})).toEqual({ status: 403, text: 'Forbidden\n' });
  });

  it('asks the browser for a password if there is a challenge', async () => {
    const challenge = 'Basic realm="locks"';
    const { page } = await start({ options: { authorize: async () => undefined, challenge } });
    const response = await fetch(page);
    expect(response.status).toBe(401);
    expect(response.headers.get('www-authenticate')).toBe(challenge);
  });

  it.each([
    [
      'throws',
      () => {
        throw new Error('secret');
      },
    ],
    ['rejects', () => Promise.reject(new LockKeyError('secret'))],
    ['answers with something else', () => 'secret' as 'read'],
    ['answers true', () => true as unknown as 'read'],
    ['answers with another role', () => ({ role: 'secret' }) as unknown as 'read'],
  ])('opens nothing if authorize %s, and logs it', async (_, authorize) => {
    const { page, logger } = await start({ options: { authorize } });
    const response = await fetch(page);
    expect(response.status).toBe(500);
    expect(await response.text()).not.toContain('secret');
    expect(logger.lines('nestjs-locked').join('\n')).toContain('authorize has failed: ');
  });

  it('opens nothing if authorize does not answer, and logs it', async () => {
    const { page, app, logger } = await start({
      options: { authorize: () => new Promise<never>(() => {}) },
    });
    const answers = await Promise.all(['', 'page.js', 'events'].map((part) => fetch(page + part)));
    expect(answers.map(({ status }) => status)).toEqual([500, 500, 500]);
    expect(logger.lines('nestjs-locked').join('\n')).toContain('no answer within 10000 ms');
    await app.close();
  });

  it('is asked with the request', async () => {
    const { page } = await start({
      options: {
        authorize: ({ headers }) => (headers['x-token'] === 'right' ? 'read' : undefined),
      },
    });
    expect((await fetch(page)).status).toBe(403);
    expect((await fetch(page, { headers: { 'x-token': 'right' } })).status).toBe(200);
  });

  it('is asked of providers of the application', async () => {
    const token = Symbol('secret');
    const Secrets = class {};
    Module({ providers: [{ provide: token, useValue: 'right' }], exports: [token] })(Secrets);
    const { url } = await startHttp({
      imports: [
        locksModule(),
        LockDashboardModule.registerAsync({
          imports: [Secrets],
          inject: [token],
          useFactory: (secret: string) => ({
            path: '/locks',
            authorize: ({ headers }) => (headers.authorization === secret ? 'read' : undefined),
          }),
        }),
      ],
    });
    expect((await fetch(`${url}/locks/`)).status).toBe(403);
    const headers = { authorization: 'right' };
    expect((await fetch(`${url}/locks/`, { headers })).status).toBe(200);
  });

  it('is not decided by guards of the application', async () => {
    const { url } = await startHttp({
      imports: [
        locksModule(),
        LockDashboardModule.register({ path: '/locks', authorize: () => 'read' }),
      ],
      providers: [{ provide: APP_GUARD, useValue: { canActivate: () => false } }],
    });
    expect((await fetch(`${url}/locks/`)).status).toBe(200);
  });
});

describe('a release', () => {
  it('is for administrators only', async () => {
    const { page, locks } = await start({ options: { authorize: () => 'read' } });
    const key = uniqueKey();
    const lock = await locks.acquire(key);
    const { status, text } = await release(page, await confirmed(page, key));
    expect([status, text]).toEqual([403, expect.stringContaining('but not release')]);
    expect(lock.isHeld).toBe(true);
  });

  it.each<[string, Record<string, string>]>([
    ['another site', { 'sec-fetch-site': 'cross-site' }],
    ['a site beside it', { 'sec-fetch-site': 'same-site' }],
    ['no page', { 'sec-fetch-site': 'none' }],
    ['another origin', { origin: 'http://evil.example' }],
    ['an origin that is none', { origin: 'null' }],
    ['another port', { origin: 'http://127.0.0.1:1' }],
    ['something that does not say so', {}],
    ['another site, which names our origin', { 'sec-fetch-site': 'cross-site', origin: 'own' }],
  ])('is refused if it comes from %s', async (_, headers) => {
    const { page, locks } = await start();
    const key = uniqueKey();
    const lock = await locks.acquire(key);
    const sent =
      headers['origin'] === 'own' ? { ...headers, origin: new URL(page).origin } : headers;
    const { status } = await release(page, await confirmed(page, key), {
      'content-type': 'application/json',
      ...sent,
    });
    expect(status).toBe(403);
    expect(lock.isHeld).toBe(true);
  });

  it('is carried out for a browser that names only our origin', async () => {
    const { page, locks } = await start();
    const key = uniqueKey();
    await locks.acquire(key);
    const headers = { 'content-type': 'application/json', origin: new URL(page).origin };
    expect((await release(page, await confirmed(page, key), headers)).status).toBe(200);
  });

  it.each([
    ['text/plain', 415],
    ['application/x-www-form-urlencoded', 415],
    ['application/json', 200],
    ['application/json; charset=utf-8', 200],
  ])('of type %s is answered with %i', async (type, expected) => {
    const { page, locks } = await start();
    const key = uniqueKey();
    await locks.acquire(key);
    const headers = { ...SAME_ORIGIN, 'content-type': type };
    expect((await release(page, await confirmed(page, key), headers)).status).toBe(expected);
  });

  it('needs the key twice, and the lease', async () => {
    const { page, locks } = await start();
    const key = uniqueKey();
    const lock = await locks.acquire(key);
    const body = await confirmed(page, key);
    for (const wrong of [
      null,
      [],
      {},
      { ...body, confirmation: `${key} ` },
      { ...body, confirmation: undefined },
      { key, confirmation: key },
      { ...body, key: 7, confirmation: 7 },
      { ...body, key: '{', confirmation: '{' },
    ]) {
      expect(await release(page, wrong)).toMatchObject({ status: 400 });
    }
    expect(lock.isHeld).toBe(true);
  });

  it('takes nothing from somebody who has got the lock since', async () => {
    const { page, locks } = await start();
    const key = uniqueKey();
    const first = await locks.acquire(key);
    const seen = await confirmed(page, key);
    await first.release();
    expect(await release(page, seen)).toMatchObject({ status: 409 });
    const second = await locks.acquire(key);
    expect(await release(page, seen)).toMatchObject({ status: 409 });
    expect(second.isHeld).toBe(true);
  });

  it('takes nothing from another process that has got the lock since', async () => {
    const { page } = await start();
    const others = new OtherProcesses(server.admin);
    const key = uniqueKey();
    await others.hold(key, { process: 1, agoMs: 1_000 });
    const seen = await confirmed(page, key);
    const token = await others.hold(key, { process: 2 });
    expect(await release(page, seen)).toMatchObject({ status: 409 });
    expect(await server.admin.get(`lock:{${key}}`)).toBe(token);
  });

  it('takes nothing from another call of this process that has got the same lease since', async () => {
    const { page, locks } = await start();
    const key = uniqueKey();
    const first = await locks.acquire(key);
    const seen = await confirmed(page, key);
    const waiting = locks.acquire(key);
    await first.release();
    const second = await waiting;
    expect((await confirmed(page, key)).leaseId).toBe(seen.leaseId);
    expect(await release(page, seen)).toMatchObject({ status: 409 });
    expect(second.isHeld).toBe(true);
    expect(await release(page, { ...seen, fencingToken: null })).toMatchObject({ status: 200 });
  });

  it.each<[string, LockOptions]>([
    ['readers', { mode: 'shared' }],
    ['permits', { permits: 3 }],
  ])('takes nothing from %s of which one has come or gone since', async (_, options) => {
    const { page, locks } = await start();
    const [{ engine }, third] = await Promise.all([openLocks(server.url), openLocks(server.url)]);
    const key = uniqueKey();
    const own = await locks.acquire(key, options);
    const seen = await confirmed(page, key);
    const other = await engine.acquire(key, options);
    expect(await release(page, seen)).toMatchObject({ status: 409 });
    const both = await confirmed(page, key);
    await own.release();
    // A process keeps the lease of its readers for a moment.
    await eventually(async () =>
      expect((await confirmed(page, key)).leaseId).not.toBe(both.leaseId),
    );
    expect(await release(page, both)).toMatchObject({ status: 409 });
    await third.engine.acquire(key, options);
    expect(other.isHeld).toBe(true);
    const now = await confirmed(page, key);
    await sleep(1_500); // in which the leases are renewed
    expect(await release(page, now)).toMatchObject({ status: 200 });
    await eventually(() => expect(other.isHeld).toBe(false));
  });

  it('takes a lock away that was detached, so that nobody adopts it', async () => {
    const { page, locks } = await start();
    const key = uniqueKey();
    const lock = await locks.acquire(key, { label: 'Gone' });
    const text = await lock.detach({ forMs: 60_000 });
    const seen = await confirmed(page, key);
    expect(seen.fencingToken).toBeNull();
    expect(await release(page, seen)).toMatchObject({ status: 200 });
    await expect(locks.adopt(text, () => 1)).rejects.toMatchObject({ code: 'LOCK_NOT_ADOPTED' });
  });

  it('is carried out on any process, also on one that does not know the fencing number', async () => {
    const { page } = await start();
    const key = uniqueKey();
    await new OtherProcesses(server.admin).hold(key);
    const seen = { ...(await confirmed(page, key)), fencingToken: 7 };
    expect(await release(page, seen)).toMatchObject({ status: 200 });
  });

  it.each(['GET', 'PUT', 'DELETE', 'HEAD'])('is not made by %s', async (method) => {
    const { page } = await start();
    expect((await fetch(`${page}release`, { method, headers: SAME_ORIGIN })).status).toBe(405);
    expect((await fetch(`${page}events`, { method: 'POST' })).status).toBe(405);
  });
});

describe('the stream', () => {
  it('has what matches the filter, and the numbers of all', async () => {
    const { page } = await start();
    const others = new OtherProcesses(server.admin);
    const group = uniqueKey('group');
    await others.holdAll([`${group}:1`, `${group}:2`, uniqueKey()]);
    const filter = encodeURIComponent(`${group}:*`);
    const stream = await EventStream.open(`${page}events?filter=${filter}`);
    const look = await stream.next<LookMessage>('look');
    expect(look.locks.map(({ key }) => key).sort()).toEqual([`${group}:1`, `${group}:2`]);
    expect(look.matching).toBe(2);
    expect(look.totals?.held).toBeGreaterThan(2);
  });

  it('has the number of the readers of a key, of which an open key names fifty', async () => {
    const { page } = await start();
    const key = uniqueKey('read');
    await new OtherProcesses(server.admin).read(key, 60);
    const stream = await EventStream.open(`${page}events?filter=${encodeURIComponent(key)}`);
    const [lock] = (await stream.next<LookMessage>('look')).locks;
    expect(lock).toMatchObject({ mode: 'shared', leases: 60, holder: { pid: 100 } });
    const response = await fetch(`${page}lock?key=${encodeURIComponent(key)}`);
    const { holders } = (await response.json()) as ShownQueue;
    expect(holders.map(({ pid }) => pid)).toEqual(Array.from({ length: 50 }, (_, i) => 100 + i));
  });

  it('refuses a filter that can match nothing, and another site', async () => {
    const { page } = await start();
    const refused = await fetch(`${page}events?filter=${encodeURIComponent('{a}')}`);
    expect(refused.status).toBe(400);
    for (const filter of ['*a*a*a*b', 'a'.repeat(201)]) {
      const { status } = await fetch(`${page}events?filter=${filter}`);
      expect(status).toBe(400);
    }
    for (const site of ['cross-site', 'same-site']) {
      const headers = { 'sec-fetch-site': site };
      expect((await fetch(`${page}events`, { headers })).status).toBe(403);
      expect((await fetch(`${page}lock?key=a`, { headers })).status).toBe(403);
    }
    expect((await fetch(`${page}lock?key=`)).status).toBe(400);
    expect(await (await fetch(`${page}lock?key=${uniqueKey()}`)).json()).toBeNull();
  });

  it('is neither kept nor compressed on its way, and no data is', async () => {
    const { page } = await start();
    const stream = await fetch(`${page}events`);
    expect(stream.headers.get('cache-control')).toBe('no-store, no-transform');
    await stream.body?.cancel();
    const data = await fetch(`${page}lock?key=a`);
    expect(data.headers.get('cache-control')).toBe('no-store');
  });

  it('does not begin with what was seen long ago', async () => {
    const { page, locks } = await start();
    const key = uniqueKey();
    const lock = await locks.acquire(key);
    const first = await EventStream.open(`${page}events`);
    await first.next('look');
    first.close();
    await sleep(2_500);
    await lock.release();
    const second = await EventStream.open(`${page}events`);
    await second.next('look');
    const looks = second.events.filter(({ event }) => event === 'look');
    expect((looks[0]?.data as LookMessage).locks.map((it) => it.key)).not.toContain(key);
  });

  it('has the greatest numbers of each ten seconds, and so much of a text as is shown', async () => {
    const { page, locks } = await start();
    const others = new OtherProcesses(server.admin);
    const key = uniqueKey();
    await others.hold(key, { label: 'y'.repeat(4_000) });
    const own = await locks.acquire(uniqueKey());
    const stream = await EventStream.open(`${page}events`);
    const before = await stream.next<LookMessage>('look');
    const label = before.locks.find((it) => it.key === key)?.holder?.label;
    expect(label).toBe(`${'y'.repeat(300)}…`);
    await own.release();
    const most = before.totals?.held as number;
    const { history } = await stream.next<LookMessage>('look', ({ totals }) =>
      expect(totals?.held).toBe(most - 1),
    );
    expect(Math.max(...history.held.map((held) => held ?? 0))).toBe(most);
  });

  it('is for fifty at a time', async () => {
    const { page } = await start();
    const streams = [];
    for (let i = 0; i < 50; i++) streams.push(await EventStream.open(`${page}events`));
    const refused = await fetch(`${page}events`);
    expect([refused.status, await refused.text()]).toEqual([
      503,
      expect.stringContaining('50 pages watch already'),
    ]);
    streams[0]?.close();
    await eventually(() => EventStream.open(`${page}events`));
  });

  it.each(PLATFORMS)(
    'forgets who leaves before authorize has answered, on %s',
    async (platform) => {
      let answerMs = 200;
      const authorize = () => sleep(answerMs, 'read' as const);
      const { page } = await start({ platform, options: { authorize } });
      for (let i = 0; i < 50; i++) {
        const asked = request(`${page}events`).on('error', () => {});
        asked.end(() => setTimeout(() => asked.destroy(), 50));
      }
      await sleep(1_000);
      answerMs = 0;
      await EventStream.open(`${page}events`);
    },
  );

  it('looks at Redis only while somebody watches, once for all who do', async () => {
    const { page } = await start();
    const scans = async () => {
      const stats = await server.admin.info('commandstats');
      return Number(/cmdstat_scan:calls=(\d+)/.exec(stats)?.[1] ?? 0);
    };
    const first = await EventStream.open(`${page}events`);
    const second = await EventStream.open(`${page}events`);
    await first.next('look');
    const before = await scans();
    const from = performance.now();
    const looks = () => first.events.filter(({ event }) => event === 'look').length;
    const looksBefore = looks();
    await eventually(() => expect(looks()).toBeGreaterThan(looksBefore + 5));
    const seconds = (performance.now() - from) / 1_000;
    expect(looks() - looksBefore).toBeLessThan(seconds + 1.5);
    expect((await scans()) - before).toBeLessThan(seconds + 3);
    expect(second.events.length).toBeGreaterThan(3);
    first.close();
    second.close();
    await sleep(2_500);
    const after = await scans();
    await sleep(1_500);
    expect(await scans()).toBe(after);
  });

  it('costs one scan, however many filters there are', async () => {
    const { page } = await start();
    const others = new OtherProcesses(server.admin);
    const group = uniqueKey('group');
    await others.holdAll(Array.from({ length: 40 }, (_, i) => `${group}:${i}`));
    const streams: EventStream[] = [];
    for (let i = 0; i < 20; i++)
      streams.push(await EventStream.open(`${page}events?filter=${group}:${i}`));
    const countOf = async (command: string) => {
      const stats = await server.admin.info('commandstats');
      return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
    };
    const shown = ({ events }: EventStream) => events.filter(({ event }) => event === 'look');
    await eventually(() => {
      for (const stream of streams) expect(shown(stream).length).toBeGreaterThan(0);
    });
    const [first] = streams as [EventStream];
    const [looks, scans, gets] = [shown(first).length, await countOf('scan'), await countOf('get')];
    const total = keysIn(await server.admin.info('keyspace'));
    await eventually(() => expect(shown(first).length).toBeGreaterThan(looks + 2));
    const seen = shown(first).length - looks + 1;
    expect((await countOf('scan')) - scans).toBeLessThanOrEqual(
      seen * (Math.ceil(total / 500) + 2),
    );
    expect((await countOf('get')) - gets).toBeLessThanOrEqual(seen * (total + 20));
    for (const [i, stream] of streams.entries()) {
      const { locks, matching, totals } = shown(stream).at(-1)?.data as LookMessage;
      expect([matching, ...locks.map(({ key }) => key)]).toEqual([1, `${group}:${i}`]);
      expect(totals?.held).toBeGreaterThanOrEqual(40);
    }
  });

  it('goes on for others if somebody has a filter that can match no key', async () => {
    const { url } = await startHttp({
      imports: [
        locksModule('shop'),
        LockDashboardModule.register({ path: '/locks', service: 'shop', authorize: () => 'read' }),
      ],
    });
    const wrong = await EventStream.open(`${url}/locks/events?filter=shop:*`);
    const right = await EventStream.open(`${url}/locks/events?filter=a*`);
    await wrong.next<LookMessage>('look', ({ problem }) => expect(problem).toContain('keyPrefix'));
    await right.next<LookMessage>('look', ({ problem }) => expect(problem).toBeNull());
  });

  it('says that Redis does not answer, and goes on when it does', async () => {
    const { page } = await start();
    const key = uniqueKey();
    const stream = await EventStream.open(`${page}events`);
    await stream.next<LookMessage>('look', ({ problem }) => expect(problem).toBeNull());
    server.pause();
    try {
      await stream.next<LookMessage>('look', ({ problem, totals }) => {
        expect(problem).not.toBeNull();
        expect(totals).toBeNull();
      });
      expect((await fetch(`${page}lock?key=${key}`)).status).toBe(503);
      const { status, text } = await release(page, { key, confirmation: key, leaseId: 'a' });
      expect([status, text]).toEqual([503, expect.stringContaining('may have been released')]);
      await stream.next<LogMessage>('log', ([entry]) =>
        expect(entry).toMatchObject({ key, result: 'unknown' }),
      );
    } finally {
      server.resume();
    }
    await stream.next<LookMessage>('look', ({ problem }) => expect(problem).toBeNull());
  });
});

it('keeps the latest hundred of what operators did, and so much of their names as is shown', () => {
  const log = new OperatorLog();
  for (let i = 0; i < 101; i++) log.add('n'.repeat(1_000), `${i}`, 'refused');
  expect(log.entries).toHaveLength(100);
  expect(log.entries[0]).toMatchObject({ key: '100', operator: `${'n'.repeat(300)}…` });
});

it('shows what this process has lost, also before somebody watches', async () => {
  const { page, locks } = await start();
  const key = uniqueKey();
  await locks.acquire(key);
  await locks.forceRelease(key);
  const stream = await EventStream.open(`${page}events`);
  const { history } = await stream.next<LookMessage>('look');
  expect(history.losses.reduce((sum: number, losses) => sum + (losses ?? 0), 0)).toBe(1);
  expect(history.losses.filter((losses) => losses !== null)).toHaveLength(1);
  expect(history.held.filter((held) => held !== null).length).toBeGreaterThan(0);
});

it('shows a key whose process has an entry that nobody can read', async () => {
  const { page } = await start();
  const key = uniqueKey();
  const token = await new OtherProcesses(server.admin).hold(key, { process: 9 });
  const [processId] = token.split(':') as [string];
  await server.admin.set(`lock:process:${processId}`, '{"host":"\u0007', 'PX', 60_000);
  const stream = await EventStream.open(`${page}events`);
  const { locks, problem } = await stream.next<LookMessage>('look');
  expect(problem).toBeNull();
  expect(locks.find((lock) => lock.key === key)?.holder).toMatchObject({ host: null, pid: null });
});

it('shows calls that hold a lock and wait for each other', async () => {
  const { page, locks } = await start();
  const [a, b] = [uniqueKey('a'), uniqueKey('b')];
  const nested = (first: string, second: string, label: string) =>
    locks
      .withLock(first, { label }, async () => {
        await sleep(50);
        await locks.withLock(second, { label, waitMs: 5_000 }, () => {});
      })
      .catch(() => {});
  const calls = [nested(a, b, 'One'), nested(b, a, 'Two')];
  const stream = await EventStream.open(`${page}events`);
  const { waits } = await stream.next<LookMessage>('look', (look) => {
    expect(look.waits).toHaveLength(2);
  });
  const one = waits.findIndex(({ call }) => call.label === 'One');
  expect(waits[one]).toMatchObject({ key: b, holds: [a], heldBy: [1 - one], isInRing: true });
  await locks.forceRelease(a);
  await Promise.all(calls);
});

it('shows the call of another process that has a wanted key now', async () => {
  const { page, locks } = await start();
  const { engine } = await openLocks(server.url);
  const [key, free] = [uniqueKey('wanted'), uniqueKey('unwanted')];
  for (const each of [key, free]) {
    const first = await engine.acquire(each, { label: 'First' });
    const second = engine.acquire(each, { label: 'Second' });
    await first.release();
    await second;
  }
  const waiting = locks.acquire(key, { waitMs: 60_000 });
  const seen: LookMessage[] = [];
  for (const filter of ['', '?filter=*wanted*']) {
    const stream = await EventStream.open(`${page}events${filter}`);
    seen.push(
      await stream.next<LookMessage>('look', (look) => {
        const shown = look.locks.find((lock) => lock.key === key);
        expect(shown?.holder?.label).toBe('Second');
        expect(shown?.fencingToken).toEqual(expect.any(Number));
      }),
    );
  }
  // Nobody waits for it, so nobody is asked until it is opened.
  for (const { locks: shown } of seen)
    expect(shown.find((lock) => lock.key === free)).toMatchObject({ holder: { label: 'First' } });
  const response = await fetch(`${page}lock?key=${encodeURIComponent(free)}`);
  expect(((await response.json()) as ShownQueue).lock.holder?.label).toBe('Second');
  await locks.forceRelease(key);
  await (await waiting).release();
});

it('shows each lock module on a page of its own', async () => {
  const { app, url } = await startHttp({
    imports: [
      locksModule(),
      locksModule('billing'),
      LockDashboardModule.register({ path: '/locks', authorize: () => 'read' }),
      LockDashboardModule.register({
        path: '/billing-locks',
        service: 'billing',
        authorize: () => 'read',
      }),
    ],
  });
  const { lockServiceToken } =
    await import('../../libs/nestjs-locked/src/nest/decorator/lock-service.token.js');
  const [key, lost] = [uniqueKey(), uniqueKey()];
  const billing = app.get<LockService>(lockServiceToken('billing'));
  await billing.acquire(key);
  await billing.acquire(lost);
  await billing.forceRelease(lost);
  const seenAt = async (path: string) => {
    const stream = await EventStream.open(`${url}${path}/events`);
    const { locks, history } = await stream.next<LookMessage>('look');
    return {
      keys: locks.map((lock) => lock.key),
      losses: history.losses.filter((losses) => (losses ?? 0) > 0),
    };
  };
  const seen = await seenAt('/billing-locks');
  expect(seen.keys).toContain(key);
  expect(seen.losses).toEqual([1]);
  const other = await seenAt('/locks');
  expect(other.keys).not.toContain(key);
  expect(other.losses).toEqual([]);
});

it('shows the locks of a test in memory', async () => {
  const { app, url } = await startHttp({
    imports: [
      LockTestingModule.forRoot(),
      LockDashboardModule.register({ path: '/locks', authorize: () => 'read' }),
    ],
  });
  await app.get(LockService).acquire('stock:42');
  const stream = await EventStream.open(`${url}/locks/events`);
  const look = await stream.next<LookMessage>('look');
  expect(look.locks).toMatchObject([{ key: 'stock:42', waiters: 0 }]);
});

it('is closed to a request that ends before its body', async () => {
  const { page } = await start({ platform: 'Fastify' });
  const asked = request(`${page}release`, {
    method: 'POST',
    headers: { ...SAME_ORIGIN, 'content-length': '100' },
  });
  const closed = new Promise((resolve) => asked.on('error', resolve));
  asked.write('{');
  await sleep(100);
  asked.destroy();
  await closed;
  expect((await fetch(page)).status).toBe(200);
});
