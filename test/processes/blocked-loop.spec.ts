/** A process with `renewFrom: 'worker'` that is blocked, stopped, or ends. */
import { afterAll, afterEach, beforeEach, describe, expect, it } from '@jest/globals';
import { spawnSync } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { expectExclusive } from '../support/hold-history.js';
import { LockObserver } from '../support/lock-observer.js';
import { LockProcess } from '../support/lock-process.js';
import { useRedisServer } from '../support/own-redis.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 1_000;

afterAll(() => LockProcess.endAll());
const server = useRedisServer();
const observer = new LockObserver(server);
let key: string;

beforeEach(() => {
  key = uniqueKey();
});

afterEach(() => LockProcess.closeAll());

function start(renewFrom: 'main' | 'worker' = 'worker'): Promise<LockProcess> {
  return LockProcess.start({ redisUrl: server.url, leaseMs: LEASE_MS, waitMs: 60_000, renewFrom });
}

describe('a holder whose event loop is blocked for two and a half leases', () => {
  it('tells all its code that the lock is held, whatever runs first afterwards', async () => {
    const [holder, other] = await Promise.all([start(), start('main')]);
    const holding = holder.hold(key);
    await holding.entered;
    const token = await observer.holder(key);
    const waiting = other.hold(key, { ms: 1 });
    await observer.waiting(key, 1);

    for (const askAtOnce of [false, true]) {
      const blocking = holder.call('block', { ms: 2.5 * LEASE_MS, askAtOnce });
      await sleep(2 * LEASE_MS);
      expect(await observer.holder(key)).toBe(token);
      const { heard } = await blocking;
      expect(heard.filter(({ assertHeld }) => assertHeld !== 'ok')).toEqual([]);
      expect(heard.length).toBeGreaterThan(3);
    }

    const held = await holding.release();
    expect(held).toMatchObject({ lost: undefined, released: true });
    expectExclusive([held, await waiting.ended]);
  });

  it('has lost it without a worker thread', async () => {
    const [holder, other] = await Promise.all([start('main'), start('main')]);
    const holding = holder.hold(key);
    await holding.entered;
    const waiting = other.hold(key, { ms: 1 });
    await observer.waiting(key, 1);

    const { heard } = await holder.call('block', { ms: 2.5 * LEASE_MS, askAtOnce: true });
    expect(heard.filter(({ assertHeld }) => assertHeld !== 'LOCK_LOST')).toEqual([]);
    expect((await holding.release()).lost).toMatchObject({ reason: 'expired' });
    await waiting.ended;
  });
});

describe('a holder whose process is stopped', () => {
  it('loses its lock, and its worker thread does not renew it afterwards', async () => {
    const [holder, other] = await Promise.all([start(), start()]);
    const holding = holder.hold(key);
    await holding.entered;
    const waiting = other.hold(key);
    await observer.waiting(key, 1);

    holder.pause();
    const { token } = await waiting.entered; // before the holder goes on
    const lease = await observer.holder(key);
    holder.resume();

    expect(await holding.lost).toMatchObject({ reason: 'expired' });
    expect((await holding.release()).released).toBe(false);
    await sleep(LEASE_MS / 2);
    expect(await observer.holder(key)).toBe(lease);
    expect((await waiting.release()).token).toBe(token);
  });

  it('loses it also if it was blocked before, and is blocked afterwards', async () => {
    const [holder, other] = await Promise.all([start(), start()]);
    const holding = holder.hold(key);
    await holding.entered;
    const waiting = other.hold(key);
    await observer.waiting(key, 1);

    const blocking = holder.call('block', { ms: 4 * LEASE_MS, askAtOnce: true });
    await sleep(1.5 * LEASE_MS);
    holder.pause();
    await waiting.entered;
    holder.resume();

    const { heard } = await blocking;
    expect(heard.filter(({ assertHeld }) => assertHeld !== 'LOCK_LOST')).toEqual([]);
    await waiting.release();
  });
});

describe('a process with a worker thread', () => {
  const application = (end: string): string => `
    import { NestFactory } from '@nestjs/core';
    import { LockService, RedisLockModule } from 'nestjs-locked';
    const module = RedisLockModule.forRoot({
      ...{ connection: '${server.url}', renewFrom: 'worker', shutdownMs: 500 },
    });
    const app = await NestFactory.createApplicationContext(module, { logger: false });
    await app.get(LockService).acquire('${key}', { leaseMs: 500 });
    ${end}`;
  const run = (end: string) =>
    spawnSync(process.execPath, ['--input-type=module', '-e', application(end)], {
      encoding: 'utf8',
      env: { ...process.env, NODE_OPTIONS: '' }, // an exception is meant
      timeout: 20_000,
    });

  it('ends when its application is closed', () => {
    const { status, signal, stderr } = run('setTimeout(() => app.close(), 10);');
    expect({ status, signal, stderr }).toEqual({ status: 0, signal: null, stderr: '' });
  });

  it.each([
    ['process.exit', 'process.exit(3);', 3],
    ['an uncaught exception', `setTimeout(() => { throw new Error('mine'); });`, 1],
  ])('takes it along at %s: the lock ends with its lease', async (_, end, status) => {
    expect(run(end)).toMatchObject({ status, signal: null });
    await sleep(700);
    expect(await observer.holder(key)).toBeNull();
  });
});
