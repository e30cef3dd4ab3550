import { describe, expect, it } from '@jest/globals';
import { Controller, Get, type INestApplication, Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Redis } from 'ioredis';
import { type Lock, Locked, LockService, RedisLockModule } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { startHttp, startNest } from '../support/nest-app.js';
import { useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

/** Short, so that a lock that is not renewed while the application closes would be noticed. */
const LEASE_MS = 1_500;

const server = useRedisServer();

async function connections(): Promise<number> {
  return String(await server.admin.call('CLIENT', 'LIST'))
    .trim()
    .split('\n').length;
}

describe('an application that closes', () => {
  it('lets a request in flight finish under its lock, refuses waiters, closes Redis last [R45, D135]', async () => {
    const events: string[] = [];
    const key = uniqueKey();
    const mayFinish = makeGate();
    afterTest(() => mayFinish.open());

    @Controller()
    class SlowController {
      @Get()
      @Locked(() => key)
      async slow(): Promise<string> {
        events.push('begins');
        await mayFinish.opened;
        events.push('ends');
        return 'finished';
      }
    }
    const other = await startNest({
      imports: [RedisLockModule.forRoot({ connection: server.url })],
    });
    const before = await connections();
    const { app, url } = await startHttp({
      imports: [RedisLockModule.forRoot({ connection: server.url, leaseMs: LEASE_MS })],
      controllers: [SlowController],
    });
    const locks = app.get(LockService);
    const answer = fetch(url, { headers: { connection: 'close' } });
    await eventually(() => expect(events).toEqual(['begins']));
    const waiter = locks.acquire(key);

    const closing = app.close().then(() => events.push('closed'));
    await expect(waiter).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    await expect(locks.tryAcquire(uniqueKey())).rejects.toMatchObject({ code: 'LOCK_ABORTED' });

    const successor = other.get(LockService).withLock(key, () => events.push('successor'));
    await sleep(LEASE_MS * 2);
    expect(events).toEqual(['begins']);

    mayFinish.open();
    expect(await (await answer).text()).toBe('finished');
    await Promise.all([closing, successor]);
    expect(events.slice(0, 2)).toEqual(['begins', 'ends']);
    await eventually(async () => expect(await connections()).toBe(before));
  });

  it('after shutdownMs aborts work that does not end, and lets its lease run out [D135]', async () => {
    const app = await startNest({
      imports: [RedisLockModule.forRoot({ connection: server.url, shutdownMs: 50 })],
    });
    const key = uniqueKey();
    const held: Lock[] = [];
    const end = makeGate();
    const work = app.get(LockService).withLock(key, (lock) => {
      held.push(lock);
      lock.signal.throwIfAborted();
      return end.opened;
    });
    await eventually(() => expect(held).toHaveLength(1));
    await app.close();
    expect(held[0]?.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'shutdown' });
    expect(await server.admin.pttl(`lock:{${key}}`)).toBeGreaterThan(0);
    end.open();
    await work;
  });

  it('closes its connections even when nobody ever requested a lock', async () => {
    const before = await connections();
    @Injectable()
    class Idle {}
    const app = await startNest({
      imports: [RedisLockModule.forRoot({ connection: server.url })],
      providers: [Idle],
    });
    expect(await connections()).toBe(before + 2);
    await app.close();
    await eventually(async () => expect(await connections()).toBe(before));
  });
});

describe('an application that closes before it has started', () => {
  async function notStarted(): Promise<INestApplication> {
    const imports = [RedisLockModule.forRoot({ connection: server.url })];
    const root = { module: class Root {}, imports };
    return NestFactory.create(root, { logger: false, abortOnError: false });
  }

  it('ends the start, and pending calls for a lock, without waiting for Redis [D44]', async () => {
    server.pause();
    afterTest(() => server.resume());
    const app = await notStarted();
    const start = app.init();
    const asked = app.get(LockService).acquire(uniqueKey());
    const refused = { code: 'LOCK_ABORTED' };
    const ended = Promise.all([
      expect(start).rejects.toMatchObject(refused),
      expect(asked).rejects.toMatchObject(refused),
    ]);
    const closedAt = performance.now();
    await app.close();
    await ended;
    expect(performance.now() - closedAt).toBeLessThan(5_000); // Redis would be waited for twice as long
  });

  it('connects to nothing after that [D44]', async () => {
    const ours = 1;
    // Connections of the previous test may have been closed unnoticed by the server.
    await eventually(async () => expect(await connections()).toBe(ours));
    const app = await notStarted();
    await app.close();
    const asked = app.get(LockService).acquire(uniqueKey());
    await expect(asked).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    expect(await connections()).toBe(ours);
  });
});

describe('an application whose Redis client another module closes', () => {
  const hooks = ['onModuleDestroy', 'beforeApplicationShutdown', 'onApplicationShutdown'] as const;
  // Nest closes global modules last, in reverse order of import, and the lock module is one.
  const places = ['not global', 'global, imported first', 'global, imported last'] as const;
  const cases = hooks.flatMap((hook) => places.map((place) => [hook, place] as const));

  it.each(cases)(
    'in %s (%s): keys of finished work are free at once, waiters are refused',
    async (hook, place) => {
      const before = await connections();
      const client = new Redis(server.url);
      const closed = makeGate();
      const [inRequest, outside, lingering] = [uniqueKey(), uniqueKey(), uniqueKey()];

      @Module({})
      class ForeignModule {
        async [hook](): Promise<void> {
          if (client.status === 'end') return; // the application is closed once more, after the test
          await client.quit();
          closed.open();
        }
      }
      @Controller()
      class SlowController {
        @Get()
        @Locked(() => inRequest)
        async slow(): Promise<string> {
          entered.open();
          await Promise.race([closed.opened, sleep(200)]); // only the last hook waits for requests
          return 'finished';
        }
      }
      const entered = makeGate();
      const foreign = { module: ForeignModule, global: place !== 'not global' };
      const locking = RedisLockModule.forRoot({ connection: client, lingerMs: 30_000 });
      const { app, url } = await startHttp({
        imports: place === 'global, imported last' ? [locking, foreign] : [foreign, locking],
        controllers: [SlowController],
      });
      const locks = app.get(LockService);
      await locks.withLock(lingering, () => {});
      const lock = await locks.acquire(outside);
      const waiter = expect(locks.acquire(outside)).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
      const answer = fetch(url, { headers: { connection: 'close' } });
      await entered.opened;
      expect(await taken(inRequest, outside, lingering)).toBe(3);

      const from = performance.now();
      const closing = app.close();
      await waiter;
      // It is closed before the locks, or after them.
      await Promise.race([closed.opened, sleep(1_000, undefined, { ref: false })]);
      expect(await lock.release()).toBe(true);
      await closing;

      expect(performance.now() - from).toBeLessThan(5_000);
      expect(await (await answer).text()).toBe('finished');
      expect(await taken(inRequest, outside, lingering)).toBe(0);
      await eventually(async () => expect(await connections()).toBe(before));
    },
  );
});

/** How many of these keys are held. */
function taken(...keys: string[]): Promise<number> {
  return server.admin.exists(keys.map((key) => `lock:{${key}}`));
}
