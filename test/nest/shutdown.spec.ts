import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Controller, Get, Injectable, Module, type OnApplicationShutdown } from '@nestjs/common';
import { RedisServer } from 'dev-servers';
import { Redis } from 'ioredis';
import { Locked, LockService, RedisLockModule, type Lock } from 'nestjs-locked';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../support/eventually.js';
import { startHttp, startNest } from '../support/nest-app.js';
import { uniqueKey } from '../support/unique-key.js';

/** Short, so that a lock that is not renewed while the application closes would be noticed. */
const LEASE_MS = 600;

let server: RedisServer;
let redis: Redis;
let connection: string;

beforeAll(async () => {
  server = await RedisServer.start();
  connection = server.url;
  redis = new Redis(connection);
});

afterAll(async () => {
  redis.disconnect();
  await server.stop();
});

async function connections(): Promise<number> {
  return String(await redis.call('CLIENT', 'LIST'))
    .trim()
    .split('\n').length;
}

describe('an application that closes', () => {
  it('lets a request in flight finish under its lock, sends waiters away, closes Redis last', async () => {
    const events: string[] = [];
    const key = uniqueKey();
    let finish = (): void => {};
    const mayFinish = new Promise<void>((resolve) => (finish = resolve));

    @Controller()
    class SlowController {
      @Get()
      @Locked(() => key)
      async slow(): Promise<string> {
        events.push('begins');
        await mayFinish;
        events.push('ends');
        return 'finished';
      }
    }
    const other = await startNest({ imports: [RedisLockModule.forRoot({ connection })] });
    const before = await connections();
    const { app, url } = await startHttp({
      imports: [RedisLockModule.forRoot({ connection, leaseMs: LEASE_MS })],
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

    finish();
    expect(await (await answer).text()).toBe('finished');
    await Promise.all([closing, successor]);
    expect(events.slice(0, 2)).toEqual(['begins', 'ends']);
    await eventually(async () => expect(await connections()).toBe(before));
  });

  it('waits for holders outside of requests, too, and lets a global module close its client after that', async () => {
    expect(await eventsOfClosing()).toEqual(['work done', 'free', 'client closed']);
  });

  it('after shutdownMs tells work that does not end, and leaves its lease to run out', async () => {
    const app = await startNest({
      imports: [RedisLockModule.forRoot({ connection, shutdownMs: 50 })],
    });
    const key = uniqueKey();
    const held: Lock[] = [];
    let finish = (): void => {};
    const work = app.get(LockService).withLock(key, (lock) => {
      held.push(lock);
      lock.signal.throwIfAborted();
      return new Promise<void>((resolve) => (finish = resolve));
    });
    await eventually(() => expect(held).toHaveLength(1));
    await app.close();
    expect(held[0]?.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'shutdown' });
    expect(await redis.pttl(`lock:{${key}}`)).toBeGreaterThan(0);
    finish();
    await work;
  });

  it('closes its connections also when nobody ever asked for a lock', async () => {
    const before = await connections();
    @Injectable()
    class Idle {}
    const app = await startNest({
      imports: [RedisLockModule.forRoot({ connection })],
      providers: [Idle],
    });
    expect(await connections()).toBe(before + 2);
    await app.close();
    await eventually(async () => expect(await connections()).toBe(before));
  });
});

/** What happens, in order, when an application closes whose locks use the client of another module. */
async function eventsOfClosing(): Promise<string[]> {
  const events: string[] = [];
  const client = new Redis(connection);
  const key = uniqueKey();

  @Module({ providers: [{ provide: Redis, useValue: client }], exports: [Redis] })
  class RedisModule implements OnApplicationShutdown {
    async onApplicationShutdown(): Promise<void> {
      if (client.status === 'end') return; // closed once more, after the test
      if ((await redis.exists(`lock:{${key}}`)) === 0) events.push('free');
      events.push('client closed');
      client.disconnect();
    }
  }
  // Nest closes global modules last, in reverse order of import, and the lock module is one.
  const redisModule = { module: RedisModule, global: true };
  const app = await startNest({
    imports: [
      redisModule,
      RedisLockModule.forRootAsync({
        imports: [redisModule],
        inject: [Redis],
        useFactory: (connection: Redis) => ({ connection, leaseMs: LEASE_MS }),
      }),
    ],
  });
  let begin = (): void => {};
  const hasBegun = new Promise<void>((resolve) => (begin = resolve));
  const work = app.get(LockService).withLock(key, async () => {
    begin();
    await sleep(100);
    events.push('work done');
  });
  await hasBegun;
  await app.close();
  await work;
  return events;
}
