/** In a batch, each command has the outcome that it would have had alone. */
import { describe, expect, it } from '@jest/globals';
import { Redis } from 'ioredis';
import { systemClock } from '../../../libs/nestjs-locked/src/core/time/clock.js';
import type { RequiredReplicas } from '../../../libs/nestjs-locked/src/redis/connection/server/required-replicas.js';
import { RedisLockStore } from '../../../libs/nestjs-locked/src/redis/redis-lock-store.js';
import { afterTest } from '../../support/after-test.js';
import { openAdmin } from '../../support/open-locks.js';
import { startRedisServer, useRedisServer } from '../../support/own-redis.js';
import { RedisMonitor } from '../../support/redis-monitor.js';
import { SlotRefusingProxy } from '../../support/slot-refusing-proxy.js';
import { fillMemory, startSmallRedis } from '../../support/small-redis.js';
import { StoreEvents } from '../../support/store-events.js';
import { uniqueKey } from '../../support/unique-key.js';

const LEASE_MS = 30_000;

interface Terms {
  readonly username?: string;
  readonly password?: string;
  readonly replicas?: RequiredReplicas;
}

async function openStore(url: string, { replicas, ...user }: Terms = {}) {
  const client = new Redis(url, { ...user, lazyConnect: true });
  const settings = { clock: systemClock, keyPrefix: 'lock:', leaseMs: LEASE_MS };
  const closeClient = async (): Promise<void> => client.disconnect();
  const store = new RedisLockStore({ client, ...settings, replicas, closeClient });
  await store.open(new StoreEvents());
  afterTest(() => store.close());
  let count = 0;
  const token = (): string => `${store.processId}:${++count}`;
  return {
    store,
    token,
    acquire: (key: string, own = token(), nowait = false) =>
      store.acquire({ key, token: own, leaseMs: LEASE_MS, nowait }),
    release: (key: string, own: string, used = 0) => store.release({ key, token: own, used }),
  };
}

const lockOf = (key: string): string => `lock:{${key}}`;

/** The scripts that a client has sent: how many locks each is for. */
async function sentBy(monitor: RedisMonitor): Promise<number[]> {
  const commands = await monitor.commands();
  return commands
    .filter(({ source, name }) => source !== 'lua' && /^eval/.test(name))
    .map(({ args }) => Number(args[1]) / 4);
}

describe('a batch', () => {
  const server = useRedisServer();
  const keys = (count: number): string[] => Array.from({ length: count }, () => uniqueKey());

  it.each([
    [1, [1]],
    [2, [2]],
    [5, [4, 1]],
    [16, [4, 4, 4, 4]],
    [40, [10, 10, 10, 10]],
    [80, [16, 16, 16, 16, 16]],
  ])('the commands of a turn share few: of %d', async (count, sizes) => {
    const peer = await openStore(server.url);
    const monitor = await RedisMonitor.start(server.port);
    const replies = await Promise.all(keys(count).map((key) => peer.acquire(key)));
    expect(replies.map(({ kind }) => kind)).toEqual(Array(count).fill('granted'));
    expect(await sentBy(monitor)).toEqual(sizes);
  });

  it('commands that do not share keep their place among those that do', async () => {
    const peer = await openStore(server.url);
    const [key = '', other = ''] = keys(2);
    const [a, b, c] = [peer.token(), peer.token(), peer.token()];
    const replies = await Promise.all([
      peer.acquire(key, a),
      peer.acquire(other),
      peer.store.takeBack([{ key, tokens: [a] }])[0],
      peer.acquire(key, b),
      peer.release(key, b),
      peer.acquire(key, c, true),
    ]);
    expect(replies.map((reply) => reply?.kind)).toEqual([
      'granted',
      'granted',
      'left',
      'granted',
      'released',
      'granted',
    ]);
    const fences = replies.flatMap((reply) => (reply?.kind === 'granted' ? [reply.fence] : []));
    const [first = 0, , second = 0, third = 0] = fences;
    expect(second).toBeGreaterThan(first);
    expect(third).toBeGreaterThan(second);
  });

  it('the numbers of a key rise, however often it is taken in one', async () => {
    const peer = await openStore(server.url);
    const [key = ''] = keys(1);
    const turns = Array.from({ length: 8 }, () => peer.token()).flatMap((token) => [
      peer.acquire(key, token),
      peer.release(key, token),
    ]);
    const replies = await Promise.all(turns);
    const fences = replies.flatMap((reply) => (reply.kind === 'granted' ? [reply.fence] : []));
    expect(fences).toHaveLength(8);
    expect(fences).toEqual([...new Set(fences)].sort((a, b) => a - b));
  });

  it('a key of another type and a broken queue answer only their own command', async () => {
    const peer = await openStore(server.url);
    const [hash = '', queue = '', free = '', held = ''] = keys(4);
    const token = peer.token();
    await peer.acquire(held, token);
    await server.admin.hset(lockOf(hash), 'a', 'b');
    await server.admin.set(`${lockOf(queue)}:queue`, 'x');
    const alone = [];
    for (const key of [hash, queue]) alone.push(await peer.acquire(key));
    const monitor = await RedisMonitor.start(server.port);

    const replies = await Promise.all([
      ...[hash, queue, free].map((key) => peer.acquire(key)),
      peer.release(held, token),
    ]);

    expect(replies.map(({ kind }) => kind)).toEqual(['unknown', 'unknown', 'granted', 'released']);
    const known = (reply: object) => ({ ...reply, cause: undefined });
    expect(replies.slice(0, 2).map(known)).toEqual(alone.map(known));
    expect(await sentBy(monitor)).toEqual([4]);
    expect(await server.admin.exists(lockOf(held))).toBe(0);
  });

  it('without acquires writes no fence', async () => {
    const peer = await openStore(server.url);
    const held = keys(5).map((key) => [key, peer.token()] as const);
    await Promise.all(held.map(([key, token]) => peer.acquire(key, token)));
    const before = await server.admin.get('lock:fence');
    await Promise.all(held.map(([key, token]) => peer.release(key, token)));
    expect(await server.admin.get('lock:fence')).toBe(before);
  });

  it('a fence that cannot be read refuses each acquire, and no release', async () => {
    const own = await startRedisServer();
    const peer = await openStore(own.url);
    const admin = openAdmin(own.url);
    const [held = '', ...free] = keys(4);
    const token = peer.token();
    await peer.acquire(held, token);
    await admin.del('lock:fence');
    await admin.hset('lock:fence', 'a', 'b');

    const replies = await Promise.all([
      ...free.map((key) => peer.acquire(key)),
      peer.release(held, token),
    ]);

    const refused = { kind: 'unknown', cause: { message: expect.stringContaining('WRONGTYPE') } };
    expect(replies).toMatchObject([refused, refused, refused, { kind: 'released' }]);
    expect(await admin.keys('lock:{*')).toEqual([]);
  });

  it('reserves the numbers of all its acquires with one write', async () => {
    const own = await startRedisServer();
    const peer = await openStore(own.url);
    const monitor = await RedisMonitor.start(own.port);
    const replies = await Promise.all(keys(8).map((key) => peer.acquire(key)));
    const written = (await monitor.commands()).filter(({ source }) => source === 'lua');
    const fences = replies.map((reply) => (reply.kind === 'granted' ? reply.fence : NaN));
    expect(fences).toEqual(fences.toSorted((a, b) => a - b));
    expect(new Set(fences).size).toBe(8);
    expect(written.filter(({ args: [key] }) => key === 'lock:fence')).toHaveLength(2); // of two batches
    expect(Number(await openAdmin(own.url).get('lock:fence'))).toBe(fences.at(-1));
  });

  it('continues after a fence that is ahead of the clock', async () => {
    const own = await startRedisServer();
    const peer = await openStore(own.url);
    const admin = openAdmin(own.url);
    const ahead = (Date.now() + 3_600_000) * 1_000;
    await admin.set('lock:fence', ahead);
    const replies = await Promise.all(keys(4).map((key) => peer.acquire(key)));
    const fences = replies.map((reply) => (reply.kind === 'granted' ? reply.fence : NaN));
    expect(fences).toEqual([1, 2, 3, 4].map((n) => ahead + n));
  });

  it('a user who may not use one key gets all others', async () => {
    const [own = '', other = '', forbidden = ''] = keys(3);
    const rights = ['~lock:*', '&*', '+@all', `resetkeys`, `~lock:{probe*`, `~lock:process*`];
    await server.admin.call('ACL', 'SETUSER', own, 'on', '>secret', ...rights);
    for (const key of [own, other])
      await server.admin.call('ACL', 'SETUSER', own, `~${lockOf(key)}*`);
    await server.admin.call('ACL', 'SETUSER', own, '~lock:fence', '~lock:');
    const peer = await openStore(server.url, { username: own, password: 'secret' });

    const replies = await Promise.all([own, forbidden, other].map((key) => peer.acquire(key)));

    expect(replies).toMatchObject([
      { kind: 'granted' },
      { kind: 'unknown', isRefused: true },
      { kind: 'granted' },
    ]);
  });

  it('one with dead waiters drops a bounded number of them, and its commands are carried out one after the other', async () => {
    const peer = await openStore(server.url);
    const crowded = keys(4);
    for (const key of crowded) {
      const dead = Array.from({ length: 900 }, (_, i) => [i + 1, `${'d'.repeat(32)}:${i + 1}`]);
      await server.admin.zadd(`${lockOf(key)}:queue`, ...(dead.flat() as [number, string]));
    }
    const monitor = await RedisMonitor.start(server.port);

    const replies = await Promise.all(crowded.map((key) => peer.acquire(key)));

    expect(replies.map(({ kind }) => kind)).toEqual(Array(4).fill('granted'));
    const dropped = (await monitor.commands()).map(({ name, args }) =>
      name === 'zrem' ? args.length - 1 : /^eval/.test(name) ? 'script' : 0,
    );
    let most = 0;
    let inScript = 0;
    for (const each of dropped) {
      if (each === 'script') inScript = 0;
      else most = Math.max(most, (inScript += each));
    }
    expect(most).toBeLessThan(1_500);
  });

  it('a waiter is told that it is next although another key of the batch had very many dead waiters', async () => {
    const [peer, other] = [await openStore(server.url), await openStore(server.url)];
    const [crowded = '', key = ''] = keys(2);
    const dead = (count: number, from: number): [number, string] =>
      Array.from({ length: count }, (_, i) => [from + i, `${'d'.repeat(32)}:${i + 1}`]).flat() as [
        number,
        string,
      ];
    await server.admin.zadd(`${lockOf(crowded)}:queue`, ...dead(1_500, 1));
    const [held, first, second] = [peer.token(), other.token(), other.token()];
    await peer.acquire(key, held);
    const queued = await other.acquire(key, first);
    const place = queued.kind === 'queued' ? Number(queued.position) : NaN;
    await server.admin.zadd(`${lockOf(key)}:queue`, ...dead(8, place + 1));
    await other.acquire(key, second);
    const monitor = await RedisMonitor.start(server.port);

    await Promise.all([peer.acquire(crowded), peer.release(key, held)]);

    const told = (await monitor.commands()).flatMap(({ name, args }) =>
      name === 'publish' ? [String(args[1]).split(' ').slice(0, 2)] : [],
    );
    expect(told).toEqual([
      ['g', first],
      ['h', second],
    ]);
  });

  it('a server that has forgotten the scripts gets the batch again as a whole, and knows it from then on', async () => {
    const peer = await openStore(server.url);
    await server.admin.script('FLUSH');
    const monitor = await RedisMonitor.start(server.port);
    const tokens = Array.from({ length: 12 }, () => [uniqueKey(), peer.token()] as const);
    const acquired = await Promise.all(tokens.map(([key, token]) => peer.acquire(key, token)));
    const released = await Promise.all(tokens.map(([key, token]) => peer.release(key, token)));

    expect(acquired.map(({ kind }) => kind)).toEqual(Array(12).fill('granted'));
    expect(released.map(({ kind }) => kind)).toEqual(Array(12).fill('released'));
    const scripts = (await monitor.commands()).filter(({ source }) => source !== 'lua');
    const names = scripts.map(({ name }) => name).filter((name) => name.startsWith('eval'));
    expect(names.filter((name) => name === 'eval')).toHaveLength(4);
    // The first release leaves alone, because nothing is in flight, and so its script is forgotten.
    expect(names.slice(-4)).toEqual(['evalsha', 'evalsha', 'evalsha', 'eval']);
  });
});

describe('a server out of memory', () => {
  it('refuses the acquires of a batch, and carries out its releases', async () => {
    const full = await startSmallRedis();
    const admin = openAdmin(full.url);
    const peer = await openStore(full.url);
    const [held, waited, free, other] = Array.from({ length: 4 }, () => uniqueKey()) as [
      string,
      string,
      string,
      string,
    ];
    const tokens = [peer.token(), peer.token()] as const;
    await peer.acquire(held, tokens[0]);
    await peer.acquire(waited, tokens[1]);
    await fillMemory(admin);

    const replies = await Promise.all([
      peer.release(held, tokens[0]),
      peer.acquire(free),
      peer.acquire(waited),
      peer.acquire(other),
    ]);

    expect(replies).toMatchObject([
      { kind: 'released' },
      { kind: 'unknown', isRefused: true, cause: { message: expect.stringContaining('OOM') } },
      { kind: 'queued' },
      { kind: 'unknown', isRefused: true, cause: { message: expect.stringContaining('OOM') } },
    ]);
    expect(await admin.exists(lockOf(free), lockOf(held))).toBe(0);
  });
});

describe('something in front of several servers', () => {
  it('is found at the start, and each command is sent alone from then on', async () => {
    const server = await startRedisServer();
    const proxy = await SlotRefusingProxy.start(server.port);
    const peer = await openStore(proxy.url);
    expect(proxy.refused).toBe(1);

    const replies = await Promise.all(Array.from({ length: 20 }, () => peer.acquire(uniqueKey())));
    expect(replies.map(({ kind }) => kind)).toEqual(Array(20).fill('granted'));
    expect(proxy.refused).toBe(1);
  });

  it('is found later if it has taken the place of a server', async () => {
    const server = await startRedisServer();
    const proxy = await SlotRefusingProxy.start(server.port);
    proxy.isLenient = true;
    const peer = await openStore(proxy.url);
    proxy.isLenient = false;

    for (const refused of [1, 1]) {
      const replies = await Promise.all(Array.from({ length: 4 }, () => peer.acquire(uniqueKey())));
      expect(replies.map(({ kind }) => kind)).toEqual(Array(4).fill('granted'));
      expect(proxy.refused).toBe(refused);
    }
  });

  it('is found by a command that is alone as well', async () => {
    const server = await startRedisServer();
    const proxy = await SlotRefusingProxy.start(server.port);
    proxy.isLenient = true;
    const peer = await openStore(proxy.url);
    proxy.isLenient = false;
    for (let n = 0; n < 2; n++) {
      expect(await peer.acquire(uniqueKey())).toMatchObject({ kind: 'granted' });
      expect(proxy.refused).toBe(1);
    }
  });

  it('leaves the fence with the key', async () => {
    const server = await startRedisServer();
    const proxy = await SlotRefusingProxy.start(server.port);
    const peer = await openStore(proxy.url);
    const [key, token] = [uniqueKey(), peer.token()];
    expect(await peer.acquire(key, token)).toMatchObject({ kind: 'granted' });
    await peer.release(key, token);
    const admin = openAdmin(server.url);
    expect(await admin.keys('*fence')).toEqual([`${lockOf(key)}:fence`]);
    expect(await admin.pttl(`${lockOf(key)}:fence`)).toBeGreaterThan(600_000);
  });

  it('does not keep leases from being renewed', async () => {
    const server = await startRedisServer();
    const proxy = await SlotRefusingProxy.start(server.port);
    const peer = await openStore(proxy.url);
    const held = Array.from({ length: 3 }, () => [uniqueKey(), peer.token()] as const);
    for (const [key, token] of held) await peer.acquire(key, token);

    const renewed = peer.store.renew(
      held.map(([key, token]) => ({ key, token, leaseMs: LEASE_MS, used: 0, reserves: 0 })),
    );
    expect(await Promise.all(renewed)).toMatchObject(Array(3).fill({ kind: 'renewed' }));
  });
});
