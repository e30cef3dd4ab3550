import { beforeAll, describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import type { LockEvent } from '../../libs/nestjs-locked/src/core/lock-events.js';
import { resolveServiceOptions } from '../../libs/nestjs-locked/src/core/resolved.options.js';
import { systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import { openRedis } from '../../libs/nestjs-locked/src/redis/connection/server/open-redis.js';
import { RedisLockStore } from '../../libs/nestjs-locked/src/redis/redis-lock-store.js';
import { LockScripts } from '../../libs/nestjs-locked/src/redis/scripts/lock-scripts.js';
import type { RedisScript } from '../../libs/nestjs-locked/src/redis/scripts/redis-script.js';
import { FENCE_KEEP_MS } from '../../libs/nestjs-locked/src/redis/store-defaults.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { makeGate } from '../support/gate.js';
import { openAdmin } from '../support/open-locks.js';
import { startRedisServer, useRedisServer } from '../support/own-redis.js';
import { RedisMonitor } from '../support/redis-monitor.js';
import { uniqueKey } from '../support/unique-key.js';

const { all: scripts } = new LockScripts({
  inCluster: false,
  inboxPrefix: 'lock:inbox:',
  acceptMs: 3_000,
  fenceKeepMs: FENCE_KEEP_MS,
});

const server = useRedisServer();

beforeAll(async () => {
  // A script that the server has seen is sent by its hash from then on.
  for (const { lua } of scripts) await server.admin.script('LOAD', lua);
});

/** A process with locks. */
async function startProcess(url = server.url) {
  const opened = openRedis(url);
  const options = resolveServiceOptions({ leaseMs: 30_000 });
  const store = new RedisLockStore({
    client: opened.client,
    clock: systemClock,
    keyPrefix: 'lock:',
    leaseMs: options.leaseMs,
    closeClient: () => opened.close(),
  });
  const events: LockEvent[] = [];
  const engine = new LockEngine({ store, options, report: (event) => events.push(event) });
  await engine.open();
  afterTest(() => engine.close(0));
  return { engine, store, events };
}

/** What clients (not scripts) have sent since the last call: our scripts by name, other commands unchanged. */
async function sentBy(monitor: RedisMonitor): Promise<string[]> {
  const commands = (await monitor.commands()).filter(({ source }) => source !== 'lua');
  return commands.map(({ name, args }) => {
    const script = scripts.find(({ sha }: RedisScript) => name === 'evalsha' && args[0] === sha);
    return script?.name ?? name;
  });
}

/** Without the checks of the two connections every five seconds. */
async function sentButPings(monitor: RedisMonitor): Promise<string[]> {
  return (await sentBy(monitor)).filter((name) => !['ping', 'info', 'pubsub'].includes(name));
}

const startMonitor = (): Promise<RedisMonitor> => RedisMonitor.start(server.port);

function waitersOf(key: string): Promise<number> {
  return server.admin.zcard(`lock:{${key}}:queue`);
}

/** Every key with its value, and whether it expires. */
async function contents(outside: Redis): Promise<Record<string, unknown>> {
  const all: Record<string, unknown> = {};
  for (const key of await outside.keys('*')) {
    all[key] = { value: await outside.dumpBuffer(key), ends: (await outside.pttl(key)) > 0 };
  }
  return all;
}

async function failure(promise: Promise<unknown>, code: string): Promise<void> {
  await expect(promise).rejects.toMatchObject({ code });
}

/** Counts how often anything is written to the sockets that lead to this port. */
function countWrites(port: number): { count: number } {
  const writes = { count: 0 };
  const prototype = Socket.prototype as unknown as Record<string, (...args: unknown[]) => unknown>;
  for (const name of ['_write', '_writev']) {
    const original = prototype[name] as (...args: unknown[]) => unknown;
    prototype[name] = function (this: Socket, ...args) {
      if (this.remotePort === port) writes.count++;
      return original.apply(this, args);
    };
    afterTest(() => {
      prototype[name] = original;
    });
  }
  return writes;
}

describe('traffic', () => {
  it('withLock of a free key sends two commands [R39]', async () => {
    const { engine } = await startProcess();
    const key = uniqueKey();
    const monitor = await startMonitor();

    for (let round = 1; round <= 3; round++) {
      await engine.withLock(key, {}, async () => {
        expect(await sentButPings(monitor)).toEqual(['acquire']);
      });
      expect(await sentButPings(monitor)).toEqual(['release']);
    }
  });

  it('the commands of a turn of the event loop share few writes', async () => {
    const { engine } = await startProcess();
    const keys = Array.from({ length: 50 }, () => uniqueKey());
    const writes = countWrites(server.port);

    const locks = await Promise.all(keys.map((key) => engine.acquire(key)));
    expect(writes.count).toBe(2);
    await locks[0]?.release();
    expect(writes.count).toBe(3);
    await Promise.all(locks.slice(1, 17).map((lock) => lock.release()));
    expect(writes.count).toBe(6); // the first one, and then two writes for the others
  });

  it('a release leaves at once if nothing is in flight, because the process may end before its turn does', async () => {
    const { engine } = await startProcess();
    const lock = await engine.acquire(uniqueKey());
    const writes = countWrites(server.port);
    const released = lock.release();
    expect(writes.count).toBe(1);
    expect(await released).toBe(true);
  });

  it('fifty callers of one process follow each other with one command in between, for their fencing numbers', async () => {
    const { engine } = await startProcess();
    const key = uniqueKey();
    const monitor = await startMonitor();
    const fences: number[] = [];
    let inside = 0;

    await Promise.all(
      Array.from({ length: 50 }, () =>
        engine.withLock(key, {}, async ({ fencingToken }) => {
          expect(++inside).toBe(1);
          await new Promise(setImmediate);
          fences.push(fencingToken);
          inside--;
        }),
      ),
    );

    expect(await sentButPings(monitor)).toEqual(['acquire', 'renew', 'release']);
    const [first = 0] = fences;
    expect(fences).toEqual(Array.from({ length: 50 }, (_, i) => first + i));
    expect(Number(await server.admin.get('lock:fence'))).toBeGreaterThanOrEqual(first + 49);
  });

  it('tryAcquire of a key that is held in the same process sends nothing', async () => {
    const { engine } = await startProcess();
    const key = uniqueKey();
    const monitor = await startMonitor();

    await engine.withLock(key, {}, async () => {
      await sentBy(monitor);
      await expect(engine.acquire(key, { waitMs: 0, reentrant: false })).rejects.toMatchObject({
        code: 'LOCK_NOT_ACQUIRED',
      });
      expect(await sentButPings(monitor)).toEqual([]);
    });
  });

  it('a hand-over between two processes needs no read of the key [D106]', async () => {
    const [a, b] = [await startProcess(), await startProcess()];
    const key = uniqueKey();
    const monitor = await startMonitor();
    const [held, end] = [makeGate(), makeGate()];
    const first = a.engine.withLock(key, {}, () => (held.open(), end.opened));
    await held.opened;
    const second = b.engine.withLock(key, {}, () => {});
    await eventually(async () => expect(await waitersOf(key)).toBe(1));
    await sentBy(monitor);

    end.open();
    await Promise.all([first, second]);

    expect(await sentButPings(monitor)).toEqual(['release', 'release']);
  });

  it('a waiter sends its safety re-checks and nothing else [D106]', async () => {
    const [a, b] = [await startProcess(), await startProcess()];
    const key = uniqueKey();
    const [held, end] = [makeGate(), makeGate()];
    const first = a.engine.withLock(key, {}, () => (held.open(), end.opened));
    await held.opened;
    const second = b.engine.withLock(key, { waitMs: 60_000 }, () => {});
    await eventually(async () => expect(await waitersOf(key)).toBe(1));
    const monitor = await startMonitor();

    const before = performance.now();
    await sleep(12_000);
    const sent = await sentBy(monitor);
    const seconds = (performance.now() - before) / 1_000;

    const count = (name: string) => sent.filter((other) => other === name).length;
    expect(new Set(sent)).toEqual(new Set(['ping', 'info', 'pubsub', 'recheck', 'prolong']));
    expect(count('recheck')).toBeLessThanOrEqual(Math.ceil(seconds / 5));
    expect(count('prolong')).toBeLessThanOrEqual(Math.ceil(seconds / 10));
    for (const name of ['ping', 'info', 'pubsub'])
      expect(count(name)).toBeLessThanOrEqual(2 * Math.ceil(seconds / 5));

    end.open();
    await Promise.all([first, second]);
    const handOver = await sentButPings(monitor); // the grant may be confirmed by a renewal
    expect(handOver.filter((name) => name !== 'renew')).toEqual(['release', 'release']);
    expect(a.events.concat(b.events)).toEqual([]);
  });

  it('a notice about a token of another process sends nothing [R25]', async () => {
    const [a, b] = [await startProcess(), await startProcess()];
    const key = uniqueKey();
    const monitor = await startMonitor();

    await b.engine.withLock(key, {}, async () => {
      const token = await server.admin.get(`lock:{${key}}`);
      await sentBy(monitor);
      await server.admin.publish(`lock:inbox:${a.store.processId}`, `w ${token} ${key}`);
      await server.admin.publish(
        `lock:inbox:${a.store.processId}`,
        `w ${a.store.processId}:999 ${key}`,
      );
      await eventually(async () => expect(await sentBy(monitor)).toContain('release'));

      expect(await server.admin.get(`lock:{${key}}`)).toBe(token);
    });
  });

  it('touches no keys of others, and leaves only the fence of all keys [R30, D122]', async () => {
    const own = await startRedisServer();
    const outside = openAdmin(own.url);
    await outside.set('lock', 'text');
    await outside.set('lock:stock', 'text', 'PX', 3_600_000);
    await outside.set('lock:{stock}:other', 'text');
    await outside.hset('lock:{foreign}', 'owner', '1');
    await outside.set('lock:{held}', 'a lock of another library');
    await outside.sadd('stock', 'a', 'b');
    await outside.set('lock:inbox:x', 'text');
    const foreign = await contents(outside);
    const [a, b] = [await startProcess(own.url), await startProcess(own.url)];

    const work = async ({ signal }: { signal: AbortSignal }) => {
      await new Promise(setImmediate);
      expect(signal.aborted).toBe(false);
    };
    await Promise.all(
      [a, b].flatMap(({ engine }) => [
        ...Array.from({ length: 20 }, (_, i) => engine.withLock(i % 2 ? 'stock' : 'x', {}, work)),
        failure(engine.withLock('held', { waitMs: 200 }, work), 'LOCK_NOT_ACQUIRED'),
        failure(engine.withLock('held', { waitMs: 0 }, work), 'LOCK_NOT_ACQUIRED'),
        failure(engine.withLock('foreign', { waitMs: 200 }, work), 'LOCK_STORE_FAILED'),
        failure(
          engine.withLock('held', { signal: AbortSignal.timeout(150) }, work),
          'LOCK_ABORTED',
        ),
      ]),
    );
    await Promise.all([a.engine.close(1_000), b.engine.close(1_000)]);

    const after = await contents(outside);
    for (const [key, value] of Object.entries(foreign)) {
      expect({ [key]: after[key] }).toEqual({ [key]: value });
      delete after[key];
    }
    expect(Object.keys(after)).toEqual(['lock:fence']);
    await eventually(async () => expect(await outside.pubsub('CHANNELS')).toEqual([]));
    expect([...a.events, ...b.events]).toEqual([]);
  });

  it('close leaves no lock behind, even if it was just requested', async () => {
    const { engine } = await startProcess();
    const key = uniqueKey();

    const asked = engine.acquire(key).catch((error: unknown) => error);
    await engine.close(1_000);

    expect(await asked).toMatchObject({ code: 'LOCK_ABORTED' });
    expect(await server.admin.exists(`lock:{${key}}`, `lock:{${key}}:queue`)).toBe(0);
  });
});
