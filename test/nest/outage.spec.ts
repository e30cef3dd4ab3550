/** Redis goes away while the application runs: what is logged, how calls fail, how long closing takes. */
import { beforeEach, describe, expect, it } from '@jest/globals';
import { NestFactory } from '@nestjs/core';
import type { RedisServer } from 'dev-servers';
import type { Redis } from 'ioredis';
import {
  LockService,
  LockStoreError,
  RedisLockModule,
  type RedisLockModuleOptions,
} from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { connectAdmin } from '../support/connect-admin.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { startRedisServer } from '../support/own-redis.js';
import { RecordingLogger } from '../support/recording-logger.js';
import { uniqueKey } from '../support/unique-key.js';

/** A command may take a third of it. */
const LEASE_MS = 3_000;
/** For calls that must not wait: long compared with what they take on a busy machine. */
const WAIT_MS = 20_000;

let server: RedisServer;
beforeEach(async () => {
  server = await startRedisServer();
});

async function start(options: Partial<RedisLockModuleOptions> = {}) {
  const logger = new RecordingLogger();
  const lockModule = RedisLockModule.forRoot({
    connection: server.url,
    leaseMs: LEASE_MS,
    ...options,
  });
  const root = { module: class Root {}, imports: [lockModule] };
  const app = await NestFactory.createApplicationContext(root, { logger, abortOnError: false });
  afterTest(() => app.close());
  return { app, locks: app.get(LockService), lines: () => logger.lines('nestjs-locked') };
}

async function timed(action: Promise<unknown>): Promise<{ outcome: unknown; ms: number }> {
  const from = performance.now();
  const outcome = await action.catch((reason: unknown) => reason);
  return { outcome, ms: performance.now() - from };
}

describe('the log of an outage', () => {
  it.each([
    ['killed', () => server.kill(), () => server.restart(), /the connection to Redis broke/],
    [
      'frozen',
      async () => server.pause(),
      async () => server.resume(),
      // A command that finds its connection idle for long asks first whether anybody is there.
      /did not answer within (1000|500) ms/,
    ],
  ])(
    'of Redis that was %s has one line for its beginning, and one for its end',
    async (_, stop, resume, reason) => {
      const { locks, lines } = await start();
      // Redis comes back empty after a kill, so the locks are lost, which logs lines of its own. So does the connection
      // for messages, if it comes back later on a busy machine.
      const said = (): string[] => lines().filter((line) => / Redis is (lost|back)/.test(line));
      const mayEnd = makeGate();
      const held = Promise.all(
        Array.from({ length: 20 }, () =>
          locks.withLock(uniqueKey(), { leaseMs: 9_000 }, () => mayEnd.opened),
        ),
      );
      await sleep(50);
      await stop();
      // Renewals fail meanwhile, and calls are refused.
      await eventually(async () => {
        await locks.tryAcquire('k').catch(() => {});
        expect(said()).toHaveLength(1);
      });
      await sleep(2_500);
      await resume();
      await eventually(() => expect(said()).toHaveLength(2));
      mayEnd.open();
      await held;
      expect(said()).toEqual([
        expect.stringMatching(/^error Redis is lost: /),
        expect.stringMatching(/^log Redis is back after \d{4,} ms$/),
      ]);
      expect(said()[0]).toMatch(reason);
    },
  );
});

describe('a Redis server that answers, but executes nothing', () => {
  it.each([
    [
      'is a replica now',
      (admin: Redis) => admin.replicaof('127.0.0.1', 1),
      (admin: Redis) => admin.replicaof('NO', 'ONE'),
    ],
    [
      'is paused for writes',
      (admin: Redis) => admin.call('CLIENT', 'PAUSE', '60000', 'WRITE'),
      (admin: Redis) => admin.call('CLIENT', 'UNPAUSE'),
    ],
  ])(
    '%s: it counts as away until it has answered a command, and calls fail fast',
    async (_, stop, resume) => {
      const { locks, lines } = await start({ leaseMs: 900, failFastAfterMs: 500 });
      const admin = connectAdmin(server.url);
      afterTest(() => admin.disconnect());
      await stop(admin);
      const calls = (): Promise<unknown> =>
        Promise.allSettled(
          Array.from({ length: 20 }, () =>
            locks.tryAcquire(uniqueKey()).then((lock) => lock?.release()),
          ),
        );
      for (const until = performance.now() + 2_500; performance.now() < until;) {
        await calls();
        await sleep(20);
      }
      const late = await timed(locks.withLock(uniqueKey(), { waitMs: WAIT_MS }, () => 'ran'));
      expect(late.outcome).toBeInstanceOf(LockStoreError);
      expect(late.ms).toBeLessThan(WAIT_MS / 2);
      expect(lines().filter((line) => line.startsWith('log Redis is back'))).toEqual([]);
      await resume(admin);
      await eventually(async () => expect(await locks.withLock('k', () => 'ran')).toBe('ran'));
      await eventually(() => expect(lines().at(-1)).toMatch(/^log Redis is back after \d{4,} ms$/));
    },
  );
});

describe('failFastAfterMs', () => {
  async function awayFor(ms: number, locks: LockService): Promise<void> {
    await server.kill();
    await eventually(async () => {
      await expect(locks.ping()).rejects.toThrow('The lock store has been away for');
    });
    await sleep(ms);
  }

  it('lets calls wait for a moment, then refuses them at once', async () => {
    const { locks } = await start({ failFastAfterMs: 3_000 });
    await awayFor(0, locks);
    const early = await timed(locks.withLock('k', { waitMs: 300 }, () => 'ran'));
    expect(early.outcome).toBeInstanceOf(LockStoreError);
    expect(early.ms).toBeGreaterThan(200);
    await sleep(3_000);
    for (const call of [
      () => locks.withLock('k', { waitMs: WAIT_MS }, () => 'ran'),
      () => locks.acquire(['a', 'b'], { waitMs: WAIT_MS }),
      () => locks.tryAcquire(['a', 'b']),
      () => locks.tryAcquire('k'),
    ]) {
      const late = await timed(call());
      expect(late.outcome).toBeInstanceOf(LockStoreError);
      expect((late.outcome as Error).message).toMatch(
        /^Cannot lock '[ak]': the lock store has been away for \d+ ms: the connection to Redis broke/,
      );
      expect(late.ms).toBeLessThan(WAIT_MS / 2);
    }
    await server.restart();
    await eventually(async () => expect(await locks.withLock('k', () => 'ran')).toBe('ran'));
  });

  it('lets waiting calls go on, and serves them when Redis is back', async () => {
    const { locks } = await start({ failFastAfterMs: 0 });
    const held = await locks.acquire('k', { leaseMs: 500, renew: false });
    const waiting = locks.withLock('k', { waitMs: 20_000 }, () => 'served');
    await awayFor(300, locks);
    await server.restart();
    expect(await waiting).toBe('served');
    await held.release();
  });

  it('refuses no call for a key that this process holds, and none that joins', async () => {
    const { locks } = await start({ failFastAfterMs: 0 });
    const key = uniqueKey();
    const [hasBegun, mayEnd] = [makeGate(), makeGate()];
    const work = locks.withLock(key, { leaseMs: 20_000 }, async () => {
      hasBegun.open();
      await mayEnd.opened;
      await expect(locks.withLock(uniqueKey(), () => 'ran')).rejects.toBeInstanceOf(LockStoreError);
      return locks.withLock(key, () => 'joined');
    });
    await hasBegun.opened;
    await awayFor(50, locks);
    const next = timed(locks.withLock(key, { waitMs: 60_000 }, () => 'served'));
    mayEnd.open();
    expect(await work).toBe('joined');
    await server.restart();
    expect((await next).outcome).toBe('served');
  });

  it('Infinity lets every call wait', async () => {
    const { locks } = await start({ failFastAfterMs: Infinity });
    await awayFor(2_500, locks);
    const waiting = locks.withLock('k', { waitMs: 20_000 }, () => 'served');
    await sleep(300);
    await server.restart();
    expect(await waiting).toBe('served');
  });
});

describe('ping()', () => {
  it('measures how long Redis takes, and rejects while it is away', async () => {
    const { locks } = await start();
    expect(await locks.ping()).toBeGreaterThan(0);
    server.pause();
    afterTest(() => server.resume());
    const first = await timed(locks.ping());
    expect(first.outcome).toMatchObject({ code: 'LOCK_STORE_FAILED' });
    const second = await timed(locks.ping());
    expect(second.outcome).toMatchObject({
      code: 'LOCK_STORE_FAILED',
      message: expect.stringContaining('The lock store has been away for'), // it was not asked again
    });
    server.resume();
    await eventually(async () => expect(await locks.ping()).toBeGreaterThan(0));
  });
});

describe('an application that closes during an outage', () => {
  const SHUTDOWN_MS = 1_000;
  /** For a busy machine. Without the limit, Redis would be waited for five seconds. */
  const SLACK_MS = 3_500;

  it.each([
    ['killed', () => server.kill()],
    ['frozen', async () => server.pause()],
  ])('takes no longer than shutdownMs while Redis is %s', async (_, stop) => {
    afterTest(() => server.resume());
    const [idle, busy, waiting] = await Promise.all(
      Array.from({ length: 3 }, () => start({ shutdownMs: SHUTDOWN_MS, leaseMs: 30_000 })),
    );
    const key = uniqueKey();
    const work = busy!.locks.withLock(key, async (lock) => {
      await new Promise((resolve) => lock.signal.addEventListener('abort', resolve));
    });
    await eventually(async () => expect(await busy!.locks.inspect(key)).not.toBeNull());
    const refused = expect(waiting!.locks.acquire(key)).rejects.toMatchObject({
      code: 'LOCK_ABORTED',
    });
    const released = await busy!.locks.acquire(uniqueKey());
    await stop();
    released.release().catch(() => {}); // it cannot know whether it was
    const taken = await Promise.all([idle!, busy!, waiting!].map(({ app }) => timed(app.close())));
    await refused;
    await work;
    for (const { outcome, ms } of taken) {
      expect(outcome).toBeUndefined();
      expect(ms).toBeLessThan(SHUTDOWN_MS + SLACK_MS);
    }
  });
});
