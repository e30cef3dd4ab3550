/** The health indicator, with Terminus and a real Redis. */
import { describe, expect, it } from '@jest/globals';
import { Controller, Get, Inject } from '@nestjs/common';
import {
  HealthCheckService,
  type HealthIndicatorResult,
  HealthIndicatorService,
  TerminusModule,
} from '@nestjs/terminus';
import { Test } from '@nestjs/testing';
import {
  LockConfigError,
  LockService,
  RedisLockModule,
  type RedisLockModuleOptions,
} from 'nestjs-locked';
import { LockHealthIndicator } from 'nestjs-locked/terminus';
import { overrideLocks } from 'nestjs-locked/testing';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { connectAdmin } from '../support/connect-admin.js';
import { eventually } from '../support/eventually.js';
import { startHttp, startNest } from '../support/nest-app.js';
import { startRedisCluster } from '../support/own-cluster.js';
import { startRedisServer, useRedisServer } from '../support/own-redis.js';
import { RecordingLogger } from '../support/recording-logger.js';
import { standStill } from '../support/stand-still.js';
import { uniqueKey } from '../support/unique-key.js';

/** A command may take a third of it, and connections are checked as often. */
const LEASE_MS = 1_500;
/** For a busy machine; less than a command may take with a lease of 30 seconds. */
const SLACK_MS = 4_000;

const server = useRedisServer();

type ModuleOptions = Partial<Parameters<typeof RedisLockModule.forRoot>[0]>;

const locksOn = (connection: RedisLockModuleOptions['connection'], options: ModuleOptions = {}) =>
  RedisLockModule.forRoot({ connection, leaseMs: LEASE_MS, ...options });

/** An application with these lock modules, of which the check is asked as Terminus does. */
async function start(...modules: ReturnType<typeof locksOn>[]) {
  const app = await startNest({
    imports: [...modules, TerminusModule],
    providers: [LockHealthIndicator],
  });
  const indicator = app.get(LockHealthIndicator);
  const check = (options?: Parameters<LockHealthIndicator['isHealthy']>[1]) =>
    indicator.isHealthy('locks', options).then(({ locks }) => locks);
  return { app, indicator, check };
}

const warnings = ({ warnings }: HealthIndicatorResult['locks']): string[] =>
  (warnings as { type: string }[]).map(({ type }) => type);

async function timed<T>(action: () => Promise<T>): Promise<{ result: T; ms: number }> {
  const startedAt = performance.now();
  const result = await action();
  return { result, ms: performance.now() - startedAt };
}

/** Timers of the process; those that are left behind would add up. */
const timers = (): number =>
  process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;

@Controller('health')
class HealthController {
  constructor(
    @Inject(HealthCheckService) private readonly health: HealthCheckService,
    @Inject(LockHealthIndicator) private readonly locks: LockHealthIndicator,
  ) {}

  @Get()
  check() {
    return this.health.check([() => this.locks.isHealthy('locks')]);
  }
}

describe('while Redis answers', () => {
  it('is up, and tells how long Redis took', async () => {
    const { check } = await start(locksOn(server.url));
    expect(await check()).toEqual({ status: 'up', pingMs: expect.any(Number), warnings: [] });
  });

  it('is up with a warning as long as Redis may evict locks', async () => {
    const redis = await startRedisServer(
      '--maxmemory',
      '100mb',
      '--maxmemory-policy',
      'allkeys-lru',
    );
    const { check } = await start(locksOn(redis.url));
    expect(await check()).toEqual({
      status: 'up',
      pingMs: expect.any(Number),
      warnings: [
        { type: 'eviction', message: expect.stringContaining('(maxmemory-policy allkeys-lru)') },
      ],
    });
    expect(warnings(await check())).toEqual(['eviction']);
  });

  it('notices that the setting is corrected, or made wrong, without a new connection', async () => {
    const { check } = await start(locksOn(server.url));
    const set = (policy: string, maxMemory: string): Promise<unknown> =>
      server.admin.config('SET', 'maxmemory-policy', policy, 'maxmemory', maxMemory);
    await set('volatile-ttl', '100mb');
    expect(warnings(await check())).toEqual(['eviction']);
    await set('volatile-ttl', '0'); // its memory is never full
    expect(warnings(await check())).toEqual([]);
    await set('noeviction', '100mb');
    expect(warnings(await check())).toEqual([]);
    await set('noeviction', '0');
  });

  it('warns of any master of a Cluster that may evict locks, and is down if one is away', async () => {
    const cluster = await startRedisCluster();
    const { check } = await start(locksOn(cluster.connection));
    expect(await check()).toMatchObject({ status: 'up', warnings: [] });
    const [, , last] = await cluster.servers.masters();
    const admin = connectAdmin(last!.url);
    await admin.config('SET', 'maxmemory-policy', 'allkeys-lfu', 'maxmemory', '100mb');
    admin.disconnect();
    expect(warnings(await check())).toEqual(['eviction']);
    await last!.kill();
    await eventually(async () => expect((await check()).status).toBe('down'));
  });

  it('is up without the right to INFO, which is optional', async () => {
    const redis = await startRedisServer(
      '--maxmemory',
      '100mb',
      '--maxmemory-policy',
      'allkeys-lru',
    );
    const { check } = await start(locksOn(redis.url));
    const admin = connectAdmin(redis.url);
    await admin.call('ACL', 'SETUSER', 'default', '-info');
    admin.disconnect();
    expect(await check()).toMatchObject({ status: 'up', warnings: [] });
    await sleep(2 * LEASE_MS);
    expect(await check()).toMatchObject({ status: 'up', warnings: [] });
  });

  it('warns of a renewal that was late, only in the lock module that it belongs to', async () => {
    const { app, check } = await start(
      locksOn(server.url),
      locksOn(server.url, { name: 'billing', keyPrefix: 'billing:' }),
    );
    const key = uniqueKey();
    const lock = await app.get(LockService).acquire(key);
    standStill(LEASE_MS * 0.6); // half of it was to pass until the renewal at the latest
    await eventually(async () => expect(warnings(await check())).toEqual(['renewed-late']));
    const answer = JSON.stringify(await check());
    expect(answer).toMatch(/a lease was renewed \d+ ms late, with \d+ ms left/);
    expect(answer).not.toContain(key);
    expect(warnings(await check({ service: 'billing' }))).toEqual([]);
    await lock.release();
  });

  it('warns of a renewal that was not answered', async () => {
    const { app, check } = await start(locksOn(server.url, { leaseMs: 3_000 }));
    const key = uniqueKey();
    const lock = await app.get(LockService).acquire(key);
    await sleep(500);
    server.pause();
    await sleep(2_000); // a renewal is due after one second, and may take one
    server.resume();
    await eventually(async () => {
      expect(await check()).toMatchObject({
        status: 'up',
        warnings: [{ type: 'renewal-unknown', message: expect.not.stringContaining(key) }],
      });
    });
    expect(lock.isHeld).toBe(true);
    await lock.release();
  });
});

describe('while locks cannot be taken', () => {
  it('is down within the limit while Redis hangs, and then up again', async () => {
    const { app, check } = await start(locksOn(server.url, { leaseMs: 30_000 }));
    const key = uniqueKey();
    const lock = await app.get(LockService).acquire(key);
    server.pause();
    const { result, ms } = await timed(() => check({ timeoutMs: 300 }));
    expect(result).toEqual({
      status: 'down',
      message: 'Redis has not answered within 300 ms',
      code: 'LOCK_STORE_FAILED',
    });
    expect(ms).toBeGreaterThan(290);
    expect(ms).toBeLessThan(SLACK_MS);
    const byDefault = await timed(() => check());
    expect(byDefault.result.status).toBe('down');
    expect(byDefault.ms).toBeLessThan(SLACK_MS);
    server.resume();
    await eventually(async () => expect((await check()).status).toBe('up'));
    await lock.release();
  });

  it('is down at once while Redis is known to be away, with the reason, and then up again', async () => {
    const { check } = await start(locksOn(server.url));
    await server.kill();
    await eventually(async () => {
      const { result, ms } = await timed(() => check());
      expect(result).toMatchObject({ status: 'down', code: 'LOCK_STORE_FAILED' });
      expect(result['message']).toMatch(/^The lock store has been away for \d+ ms: /);
      expect(ms).toBeLessThan(100);
    });
    await server.restart();
    await eventually(async () => expect((await check()).status).toBe('up'));
  });

  it('is down while a right is missing, and says which', async () => {
    const rules = ['on', '>secret', '~*', '&*', '+@all'];
    const user = uniqueKey('user');
    await server.admin.call('ACL', 'SETUSER', user, ...rules);
    const { check } = await start(locksOn(`redis://${user}:secret@127.0.0.1:${server.port}`));
    expect((await check()).status).toBe('up');
    await server.admin.call('ACL', 'SETUSER', user, '-publish');
    await eventually(async () => {
      const down = await check();
      expect(down).toMatchObject({ status: 'down', code: 'LOCK_STORE_FAILED' });
      expect(down['message']).toMatch(/^The lock store has refused .*ACL SETUSER/);
      expect(down['message']).not.toContain('secret');
    });
    await server.admin.call('ACL', 'SETUSER', user, '+publish');
    await eventually(async () => expect((await check()).status).toBe('up'));
  });

  it('is down until Redis is there, if the application has started without it', async () => {
    await server.kill();
    const { check } = await start(locksOn(server.url, { startMs: 100, startWithoutRedis: true }));
    const { result, ms } = await timed(() => check());
    expect(result).toMatchObject({ status: 'down', code: 'LOCK_STORE_FAILED' });
    expect(result['message']).toMatch(/has not been reached for \d+ ms: .*ECONNREFUSED/);
    expect(ms).toBeLessThan(500);
    await server.restart();
    await eventually(async () => expect((await check()).status).toBe('up'));
  });

  it('is down after the application has been closed', async () => {
    const { app, check } = await start(locksOn(server.url));
    await app.close();
    expect(await check()).toMatchObject({ status: 'down', message: expect.any(String) });
  });

  it('leaves nothing behind, however often it is called', async () => {
    const { check } = await start(locksOn(server.url));
    const before = timers();
    const thousand = async (status: string, timeoutMs: number): Promise<void> => {
      const all = await Promise.all(Array.from({ length: 1_000 }, () => check({ timeoutMs })));
      expect(new Set(all.map((it) => it.status))).toEqual(new Set([status]));
    };
    server.pause();
    await thousand('down', 100); // none of them is answered
    await eventually(async () => expect((await check())['message']).toMatch(/has been away for/));
    await thousand('down', 60_000); // all of them are refused
    server.resume();
    await eventually(async () => expect((await check()).status).toBe('up'));
    await eventually(() => expect(timers()).toBeLessThanOrEqual(before + 5));
    await thousand('up', 60_000);
  });
});

describe('several lock modules', () => {
  it('are checked each by its name', async () => {
    const other = await startRedisServer();
    const { check } = await start(
      locksOn(server.url),
      locksOn(other.url, { name: 'billing', isGlobal: false }),
    );
    expect((await check()).status).toBe('up');
    expect((await check({ service: 'billing' })).status).toBe('up');
    await other.kill();
    await eventually(async () => {
      expect((await check({ service: 'billing' })).status).toBe('down');
    });
    expect((await check()).status).toBe('up');
  });

  it('of two applications with the same names share no warnings', async () => {
    const [one, other] = [await start(locksOn(server.url)), await start(locksOn(server.url))];
    const lock = await one.app.get(LockService).acquire(uniqueKey());
    standStill(LEASE_MS * 0.6);
    await eventually(async () => expect(warnings(await one.check())).toEqual(['renewed-late']));
    expect(warnings(await other.check())).toEqual([]);
    await lock.release();
  });
});

describe('the answer over HTTP', () => {
  it('is 200, and 503 while Redis is away', async () => {
    const { url } = await startHttp({
      imports: [locksOn(server.url), TerminusModule.forRoot({ logger: false })],
      controllers: [HealthController],
      providers: [LockHealthIndicator],
    });
    const up = await fetch(`${url}/health`);
    expect(up.status).toBe(200);
    expect(await up.json()).toMatchObject({
      status: 'ok',
      details: { locks: { status: 'up', pingMs: expect.any(Number), warnings: [] } },
    });
    await server.kill();
    await eventually(async () => {
      const down = await fetch(`${url}/health`);
      expect(down.status).toBe(503);
      expect(await down.json()).toMatchObject({
        status: 'error',
        error: { locks: { status: 'down', code: 'LOCK_STORE_FAILED' } },
      });
    });
    await server.restart();
    await eventually(async () => expect((await fetch(`${url}/health`)).status).toBe(200));
  });
});

describe('wrong use', () => {
  it('without TerminusModule, says what to import', async () => {
    const root = { imports: [locksOn(server.url)], providers: [LockHealthIndicator] };
    await expect(startNest(root)).rejects.toThrow(
      'there is no HealthIndicatorService; import TerminusModule in the module that provides LockHealthIndicator',
    );
  });

  it.each([
    [
      undefined,
      /there is no lock module without a name; use RedisLockModule\.forRoot\(\) \(import/,
    ],
    ['billing', /no lock module with the name 'billing'; use .*forRoot\({ name: 'billing' }\)/],
  ])('of the module %s, which is not there, says what to import', async (service, message) => {
    const { check } = await start(...(service === undefined ? [] : [locksOn(server.url)]));
    const refused = check(service === undefined ? {} : { service });
    await expect(refused).rejects.toBeInstanceOf(LockConfigError);
    await expect(refused).rejects.toThrow(message);
  });

  it.each([
    [{ timeoutMs: 0 }, /timeoutMs.*0.*whole number of at least 1/],
    [{ timeoutMs: Infinity }, /timeoutMs.*Infinity.*whole number of at least 1/],
    [{ timeoutMs: '500' }, /timeoutMs.*convert it with Number/],
    [{ timeout: 500 }, /Unknown option 'timeout'.*timeoutMs/],
    [{ name: 'billing' }, /Unknown option 'name'.*service/],
    [{ service: '' }, /service.*leave it out/],
    [null, /null/],
  ])('of the options %j is refused', async (options, message) => {
    const { check } = await start(locksOn(server.url));
    await expect(check(options as never)).rejects.toThrow(message);
    await expect(check(options as never)).rejects.toBeInstanceOf(LockConfigError);
  });

  it('without a name in the answer is refused', async () => {
    const { indicator } = await start(locksOn(server.url));
    await expect(indicator.isHealthy({ timeoutMs: 5 } as never)).rejects.toThrow(
      "the first argument is the name in the answer, such as isHealthy('locks')",
    );
  });

  it('of a mocked service is refused, because a mock is always healthy', async () => {
    const module = await Test.createTestingModule({
      imports: [locksOn(server.url), TerminusModule],
      providers: [LockHealthIndicator],
    })
      .overrideProvider(LockService)
      .useValue({ ping: async () => 1 })
      .compile();
    await expect(module.get(LockHealthIndicator).isHealthy('locks')).rejects.toThrow(
      /LockService is mocked; use LockTestingModule/,
    );
  });

  it('without TerminusModule does not start', async () => {
    const start = startNest({
      imports: [locksOn(server.url)],
      providers: [LockHealthIndicator],
    });
    await expect(start).rejects.toThrow(HealthIndicatorService.name);
  });
});

it('works with the locks of tests', async () => {
  const builder = Test.createTestingModule({
    imports: [locksOn(server.url), TerminusModule],
    providers: [LockHealthIndicator],
  });
  const locks = overrideLocks(builder);
  const app = await builder.setLogger(new RecordingLogger()).compile();
  await app.init();
  afterTest(() => app.close());
  const check = () => app.get(LockHealthIndicator).isHealthy('locks');
  expect(await check()).toMatchObject({ locks: { status: 'up', warnings: [] } });

  const lock = await app.get(LockService).acquire(uniqueKey());
  locks.storeDown();
  expect(await check()).toMatchObject({
    locks: { status: 'down', message: expect.stringContaining('storeDown()') },
  });
  await locks.advance(LEASE_MS / 2);
  locks.storeUp();
  expect(await check()).toMatchObject({
    locks: { status: 'up', warnings: [{ type: 'renewal-unknown' }] },
  });
  await locks.advance(59_000);
  expect(await check()).toMatchObject({ locks: { warnings: [{ type: 'renewal-unknown' }] } });
  await locks.advance(2_000);
  expect(await check()).toMatchObject({ locks: { status: 'up', warnings: [] } });
  await lock.release();
});
