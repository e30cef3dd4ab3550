/** When commands of the Redis store are sent, and in which order, while connections and scripts come and go. */
import { describe, expect, it } from '@jest/globals';
import type { RedisServer } from 'dev-servers';
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { acceptanceLeaseMs } from '../../libs/nestjs-locked/src/core/store/lease-timing.js';
import { systemClock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import {
  openRedis,
  type RedisOptions,
} from '../../libs/nestjs-locked/src/redis/connection/server/open-redis.js';
import type { RedisClient } from '../../libs/nestjs-locked/src/redis/connection/server/redis-client.js';
import { RedisLockStore } from '../../libs/nestjs-locked/src/redis/redis-lock-store.js';
import { LockScripts } from '../../libs/nestjs-locked/src/redis/scripts/lock-scripts.js';
import { FENCE_KEEP_MS } from '../../libs/nestjs-locked/src/redis/store-defaults.js';
import { afterTest } from '../support/after-test.js';
import { CountingClock } from '../support/counting-clock.js';
import { eventually } from '../support/eventually.js';
import { openAdmin } from '../support/open-locks.js';
import { startRedisServer, useRedisServer } from '../support/own-redis.js';
import { RedisMonitor } from '../support/redis-monitor.js';
import { StoreEvents } from '../support/store-events.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { uniqueKey } from '../support/unique-key.js';

/** A command may take a third of it. */
const LEASE_MS = 1_500;
const LIMIT_MS = 500;
/** How long a key stays taken: longer than a test takes. */
const KEPT_MS = 600_000;
/** This many may wait for a connection, or be in flight. */
const MOST = 1_000;
/** Those of a store with these settings. */
const scripts = new LockScripts({
  inCluster: false,
  inboxPrefix: 'lock:inbox:',
  acceptMs: acceptanceLeaseMs(LEASE_MS),
  fenceKeepMs: FENCE_KEEP_MS,
});

async function openStore(connection: string | RedisOptions, clock = new CountingClock()) {
  const redis = openRedis(connection);
  const store = new RedisLockStore({
    client: redis.client,
    clock,
    keyPrefix: 'lock:',
    leaseMs: LEASE_MS,
    closeClient: () => redis.close(),
  });
  const events = new StoreEvents();
  await store.open(events);
  afterTest(() => store.close());
  let count = 0;
  const token = (): string => `${store.processId}:${++count}`;
  return {
    store,
    events,
    clock,
    token,
    acquire: (key: string, own = token(), nowait = true) =>
      store.acquire({ key, token: own, leaseMs: KEPT_MS, nowait }),
    release: (key: string, own: string) => store.release({ key, token: own, used: 0 }),
    leave: async (key: string, own: string) => store.takeBack([{ key, tokens: [own] }])[0],
  };
}

/** Kills the server, and waits until the store knows that its connections are gone. */
async function killed(
  server: RedisServer,
  { acquire }: Awaited<ReturnType<typeof openStore>>,
): Promise<void> {
  await server.kill();
  await eventually(async () => expect(await acquire('any')).toMatchObject({ neverRan: true }));
}

/** How often this command was called since the server was started. */
async function calls(admin: Redis, command: string): Promise<number> {
  const stats = await admin.info('commandstats');
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
}

/** Whether an acquire for this lock, which is not released, was executed. */
function wasAsked(admin: Redis, name: string): Promise<number> {
  return admin.exists(`lock:{${name}}`);
}

describe('while there is no connection', () => {
  it('nothing is sent, then or later, once its time limit has passed', async () => {
    const server = await startRedisServer();
    const peer = await openStore(server.url);
    await killed(server, peer);

    const before = performance.now();
    const reply = await peer.acquire('late');
    expect(performance.now() - before).toBeLessThan(10 * LIMIT_MS);
    expect(reply).toMatchObject({ kind: 'unknown', neverRan: true });
    const { cause } = reply as { cause: LockStoreError };
    expect(cause).toBeInstanceOf(LockStoreError);
    expect(cause.message).toMatch(
      /^Cannot acquire 'late': there was no connection to Redis for 500 ms: .*ECONNREFUSED/,
    );

    await server.restart();
    let tries = 0;
    await eventually(async () =>
      expect(await peer.acquire(`next:${++tries}`)).toMatchObject({ kind: 'granted' }),
    );
    const admin = openAdmin(server.url);
    expect(await wasAsked(admin, `next:${tries}`)).toBe(1);
    expect(await wasAsked(admin, 'late')).toBe(0);
  });

  it('a command waits for it within its time limit, and commands keep their order', async () => {
    const server = await startRedisServer();
    const peer = await openStore(server.url, new PatientClock());
    const token = peer.token();
    await server.kill();
    expect(await peer.events.next()).toBe('inboxLost');

    const replies = Promise.all([
      peer.acquire('x', token),
      peer.leave('x', token),
      peer.acquire('x'),
      peer.acquire('x'),
    ]);
    await server.restart();

    expect(await replies).toMatchObject([
      { kind: 'granted', token },
      { kind: 'left' },
      { kind: 'granted' },
      { kind: 'busy' },
    ]);
  });

  it('a thousand commands wait, and the others fail at once', async () => {
    const server = await startRedisServer();
    const peer = await openStore(server.url);
    await killed(server, peer);

    const replies = Array.from({ length: MOST + 500 }, (_, i) => peer.acquire(`many:${i}`));
    let allWait = true;
    void Promise.race(replies.slice(0, MOST)).then(() => (allWait = false));
    const refused = await Promise.all(replies.slice(MOST));
    expect(allWait).toBe(true);
    for (const reply of refused) {
      expect(reply).toMatchObject({
        kind: 'unknown',
        neverRan: true,
        cause: {
          message: expect.stringMatching(
            /Redis cannot be reached, and 1000 commands wait for it already: .*ECONNREFUSED/,
          ),
        },
      });
    }
    for (const reply of await Promise.all(replies.slice(0, MOST))) {
      expect(reply).toMatchObject({ kind: 'unknown', neverRan: true });
    }
  });

  it('each command has its full time limit, whenever an earlier one fails', async () => {
    const server = await startRedisServer();
    const peer = await openStore(server.url);
    await killed(server, peer);

    const asked = [];
    for (let n = 0; n < 3; n++) {
      const from = performance.now();
      asked.push(peer.acquire('x').then(() => performance.now() - from));
      await sleep(LIMIT_MS / 4);
    }
    for (const tookMs of await Promise.all(asked)) {
      expect(tookMs).toBeGreaterThan(LIMIT_MS / 2);
      expect(tookMs).toBeLessThan(10 * LIMIT_MS);
    }
  });

  it('close() ends within the time limit of the waiting commands, and later commands fail', async () => {
    const server = await startRedisServer();
    const peer = await openStore(server.url);
    await killed(server, peer);

    const asked = peer.acquire('x');
    await peer.store.close();
    expect(await asked).toMatchObject({ kind: 'unknown' });
    expect(await peer.acquire('x')).toMatchObject({
      kind: 'unknown',
      neverRan: true,
      cause: { message: "Cannot acquire 'x': the locks are not open" },
    });
    expect(peer.clock.timers).toBe(0);
  });
});

describe('while the server is silent', () => {
  it('nothing is sent after the first unanswered command, and waiting commands are never sent', async () => {
    const server = await startRedisServer();
    const admin = openAdmin(server.url);
    const peer = await openStore(server.url);
    await peer.acquire('warm');

    server.pause();
    const replies: Promise<unknown>[] = [];
    const names: string[] = [];
    const from = performance.now();
    while (performance.now() - from < 5 * LIMIT_MS) {
      names.push(`silent:${names.length}`);
      replies.push(peer.acquire(names.at(-1) as string));
      await sleep(10);
    }
    for (const reply of await Promise.all(replies))
      expect(reply).toMatchObject({ kind: 'unknown' });
    server.resume();

    await eventually(async () =>
      expect(await peer.acquire('y')).toMatchObject({ kind: 'granted' }),
    );
    const asked = await Promise.all(names.map((name) => wasAsked(admin, name)));
    const settled = (await Promise.all(replies)) as { neverRan?: boolean }[];
    expect(asked.map((wasRun, i) => wasRun === 1 && settled[i]!.neverRan === true)).not.toContain(
      true,
    );
    // Commands of the first half second were in flight before the outage was known.
    const run = asked.filter((wasRun) => wasRun === 1).length;
    expect(run).toBeLessThan(names.length / 2);
    expect(asked.slice(-10)).toEqual(Array(10).fill(0));
  });
});

describe('a connection that breaks', () => {
  it('unanswered commands are sent again in order, and "not yours" to a repeated release is not a loss', async () => {
    const server = await startRedisServer();
    const proxy = await TcpProxy.start(server.port);
    const admin = openAdmin(server.url);
    const peer = await openStore(proxy.url);
    const [first, second] = [peer.token(), peer.token()];
    await peer.acquire('x', first);

    proxy.swallowAnswersOfOldest();
    const replies = Promise.all([
      peer.release('x', first),
      peer.acquire('x', second),
      peer.acquire('x'),
    ]);
    await eventually(async () => expect(await admin.get('lock:{x}')).toBe(second)); // carried out
    proxy.cut();

    expect(await replies).toMatchObject([
      { kind: 'released' },
      { kind: 'granted', token: second },
      { kind: 'busy' },
    ]);
  });

  it('unanswered commands are sent again before waiting ones', async () => {
    const server = await startRedisServer();
    const proxy = await TcpProxy.start(server.port);
    const admin = openAdmin(server.url);
    const peer = await openStore(proxy.url, new PatientClock());
    const token = peer.token();

    proxy.swallowAnswersOfOldest();
    const acquired = peer.acquire('x', token);
    const others = Array.from({ length: MOST - 1 }, (_, i) => peer.acquire(`other:${i}`));
    const released = peer.release('x', token); // no more than a thousand may be in flight
    await eventually(async () => expect(await wasAsked(admin, `other:${MOST - 2}`)).toBe(1));
    expect(await admin.get('lock:{x}')).toBe(token); // carried out, but not released
    proxy.cut();

    expect(await acquired).toMatchObject({ kind: 'granted', token });
    expect(await released).toEqual({ kind: 'released' });
    await Promise.all(others);
    expect(await admin.get('lock:{x}')).toBeNull();
  });

  it("an operator's unanswered release is not sent again: somebody else may have the lock [D60]", async () => {
    const server = await startRedisServer();
    const proxy = await TcpProxy.start(server.port);
    const admin = openAdmin(server.url);
    const peer = await openStore(proxy.url);
    await peer.acquire('x');

    proxy.swallowAnswersOfOldest();
    const failure = expect(peer.store.inspector.revoke('x')).rejects.toThrow(
      /^Cannot revoke 'x': the connection to Redis broke/,
    );
    await eventually(async () => expect(await admin.get('lock:{x}')).toMatch(/^revoked/)); // carried out
    await admin.set('lock:{x}', 'somebody', 'PX', 60_000);
    proxy.cut();

    await failure;
    await eventually(async () => expect(await peer.acquire('x')).toMatchObject({ kind: 'busy' }));
    expect(await admin.get('lock:{x}')).toBe('somebody');
  });

  it('a script that drops dead waiters in several rounds is not overtaken between them [D59]', async () => {
    const server = await startRedisServer();
    const admin = openAdmin(server.url);
    const peer = await openStore(server.url, new PatientClock());
    const token = peer.token();
    // Nobody renews it, and the queue takes its time on a busy machine.
    await peer.store.acquire({ key: 'x', token, leaseMs: 60_000, nowait: true });
    const dead = Array.from({ length: 30_000 }, (_, i) => `${i.toString(16).padStart(32, '0')}:1`);
    for (let i = 0; i < dead.length; i += 1_000)
      await admin.zadd(
        'lock:{x}:queue',
        ...dead.slice(i, i + 1_000).flatMap((member) => [i, member]),
      );

    const released = peer.release('x', token);
    await eventually(async () => expect(await admin.zcard('lock:{x}:queue')).toBeLessThan(28_000));
    const next = peer.acquire('x');

    expect(await admin.zcard('lock:{x}:queue')).toBeGreaterThan(0); // it was requested in between
    expect(await released).toEqual({ kind: 'released' });
    expect(await next).toMatchObject({ kind: 'granted' });
  });
});

describe('scripts', () => {
  const server = useRedisServer();
  let admin: Redis;

  it('are loaded on every server before it gets a command', async () => {
    const own = await startRedisServer();
    const peer = await openStore(own.url);
    admin = openAdmin(own.url);
    let tried = await calls(admin, 'eval'); // the start has checked the right
    for (let round = 1; round <= 2; round++) {
      await peer.acquire(`round:${round}`);
      expect(await calls(admin, 'eval')).toBe(tried);
      expect(await admin.info('commandstats')).toMatch(/cmdstat_evalsha:.*failed_calls=0/);
      if (round === 2) break;
      await own.restart();
      tried = 0;
      await eventually(() => expect(peer.store.listensFor('any')).toBe(true));
    }
  });

  it('after a restart, a try is not refused because of the release before it', async () => {
    const own = await startRedisServer();
    const peer = await openStore(own.url);
    await own.restart();
    admin = openAdmin(own.url);
    const keys = ['a', 'b', 'c', 'd'];
    await admin.eval(scripts.acquire.lua, 4, ...keys, 'somebody', 1, 1);
    await eventually(async () =>
      expect(await peer.acquire('y')).toMatchObject({ kind: 'granted' }),
    );

    const token = peer.token();
    expect(await peer.acquire('x', token)).toMatchObject({ kind: 'granted' });
    expect(await Promise.all([peer.release('x', token), peer.acquire('x')])).toMatchObject([
      { kind: 'released' },
      { kind: 'granted' },
    ]);
  });

  it('that the server has forgotten are sent whole in the order of the commands [D13]', async () => {
    const peer = await openStore(server.url);
    admin = openAdmin(server.url);
    const name = uniqueKey();
    const tokens = Array.from({ length: 4 }, () => peer.token());
    const [a, b, c, d] = tokens as [string, string, string, string];
    const monitor = await RedisMonitor.start(server.port);

    await admin.script('FLUSH');
    const replies = Promise.all([
      peer.acquire(name, a),
      peer.release(name, a),
      peer.acquire(name, b),
      peer.leave(name, b),
      peer.acquire(name, c),
      peer.acquire(uniqueKey()),
      peer.acquire(name, d),
    ]);
    expect(await replies).toMatchObject([
      { kind: 'granted', token: a },
      { kind: 'released' },
      { kind: 'granted', token: b },
      { kind: 'left' },
      { kind: 'granted', token: c },
      { kind: 'granted' },
      { kind: 'busy' },
    ]);
    const sent = (await monitor.commands()).filter(
      ({ source, args }) => source !== 'lua' && args.includes(`lock:{${name}}`),
    );
    const tokensOf = (args: readonly string[]) => args.filter((arg) => tokens.includes(arg));
    const whole = sent.filter((command) => command.name === 'eval');
    expect(whole.map(({ args }) => tokensOf(args))).toEqual([[a, a, b], [b], [c, d]]);
    expect(sent.slice(-3)).toEqual(whole);
  });

  it('a command whose script was forgotten is not sent again, and delays no other, if nobody waits for it', async () => {
    const own = await startRedisServer();
    const peer = await openStore(own.url);
    admin = openAdmin(own.url);
    const monitor = await RedisMonitor.start(own.port);
    await admin.script('FLUSH');
    own.pause();
    expect(await peer.acquire('x')).toMatchObject({ kind: 'unknown' });
    own.resume(); // it is answered before the connection has been silent long enough to be given up
    expect(await peer.acquire('y')).toMatchObject({ kind: 'granted' });
    const sent = (await monitor.commands()).filter(({ args }) => args.includes('lock:{x}'));
    expect(sent.map(({ name }) => name)).toEqual(['evalsha']);
    expect(await admin.exists('lock:{x}')).toBe(0);
  });

  it('a command whose script was forgotten is not sent after a later one for the same lock', async () => {
    const peer = await openStore(server.url);
    admin = openAdmin(server.url);
    const name = uniqueKey();
    const token = peer.token();

    await admin.script('FLUSH');
    await admin.script('LOAD', scripts.takeBack.lua);
    const [acquired, left, other] = await Promise.all([
      peer.acquire(name, token),
      peer.leave(name, token),
      peer.acquire(uniqueKey()),
    ]);

    expect(left).toEqual({ kind: 'left' });
    expect(acquired).toMatchObject({
      kind: 'unknown',
      neverRan: true,
      cause: {
        message: `Cannot acquire '${name}': Redis had forgotten its script, and a later command was quicker`,
      },
    });
    expect(other).toMatchObject({ kind: 'granted' }); // no command of another lock was overtaken
    expect(await admin.exists(`lock:{${name}}`)).toBe(0);
  });

  it('a command whose script was forgotten is sent after a later one for the same lock that is not about its lease', async () => {
    const { store, token, acquire } = await openStore(server.url);
    admin = openAdmin(server.url);
    const key = uniqueKey();
    const mine = token();
    await acquire(key, mine);
    const waiting = token();
    const left = token();
    for (const own of [waiting, left]) await acquire(key, own, false);
    const leaseMs = KEPT_MS;
    // Each beside an attempt of somebody else, whose script the server knows.
    const forgotten: Record<string, () => Promise<unknown>> = {
      renewed: () =>
        store.renew([{ key, token: mine, leaseMs, used: 0, reserves: 0 }])[0] as Promise<unknown>,
      queued: () => store.recheck({ key, token: waiting, newToken: token(), leaseMs, position: 0 }),
      left: () => store.takeBack([{ key, tokens: [left] }])[0] as Promise<unknown>,
    };
    for (const [kind, send] of Object.entries(forgotten)) {
      await admin.script('FLUSH');
      await admin.script('LOAD', scripts.acquire.lua);
      const [reply, quicker] = await Promise.all([send(), acquire(key)]);
      expect(quicker).toMatchObject({ kind: 'busy' });
      expect(reply).toMatchObject({ kind });
    }
  });

  it('a user without the right to load them can use locks', async () => {
    admin = openAdmin(server.url);
    const rights = ['~*', '&*', '+@all', '-script', '-info'];
    await admin.call('ACL', 'SETUSER', 'no-scripts', 'on', '>secret', ...rights);
    const { port } = server;
    const user = { port, username: 'no-scripts', password: 'secret', enableReadyCheck: false };
    const peer = await openStore(user);
    await admin.script('FLUSH');
    const name = uniqueKey();
    const token = peer.token();
    expect(await peer.acquire(name, token)).toMatchObject({ kind: 'granted' });
    expect(await peer.release(name, token)).toEqual({ kind: 'released' });
  });
});

describe('a server that is a replica', () => {
  it('gets no command at the start', async () => {
    const server = await startRedisServer('--replicaof', '127.0.0.1', '1');
    await expect(openStore(server.url, new CountingClock(1_000))).rejects.toMatchObject({
      code: 'LOCK_STORE_FAILED',
      message: expect.stringMatching(
        /^Cannot connect within .* is a READONLY replica.*; name the master in 'connection'/,
      ),
    });
  });

  it.each([
    ['READONLY', 'yes'],
    ['MASTERDOWN', 'no'],
  ])('is left when it says %s, and used again when it is a master again', async (says, stale) => {
    const server = await startRedisServer('--replica-serve-stale-data', stale);
    const admin = openAdmin(server.url);
    const peer = await openStore(server.url);
    const id = async (): Promise<string | undefined> =>
      /id=(\d+).*name=lock:commands/.exec(String(await admin.client('LIST')))?.[1];
    const before = await id();

    await admin.replicaof('127.0.0.1', 1);
    await expect(admin.eval("return redis.call('SET', 'a', 'b')", 1, 'a')).rejects.toThrow(says);
    expect(await peer.acquire('x')).toMatchObject({
      kind: 'unknown',
      neverRan: true,
      cause: { message: expect.stringMatching(/is a READONLY replica/) },
    });
    expect(await id()).not.toBe(before);

    await admin.replicaof('NO', 'ONE');
    await eventually(async () =>
      expect(await peer.acquire('y')).toMatchObject({ kind: 'granted' }),
    );
  });
});

/** No command is given up: the clock runs slowly enough that the limit of each is half a minute. */
class PatientClock extends CountingClock {
  readonly #slower = 60;

  override now(): number {
    return super.now() / this.#slower;
  }

  override wallNow(): number {
    return super.wallNow() / this.#slower;
  }

  override after(delayMs: number, fire: () => void): () => void {
    return super.after(delayMs * this.#slower, fire);
  }
}

describe('two connections that lead to different servers', () => {
  it('are refused at the start, and not opened again in a tight loop [D58]', async () => {
    const servers = [await startRedisServer(), await startRedisServer()] as const;
    const clients = servers.map(({ url }) => new Redis(url, { lazyConnect: true }));
    const [commands, inbox] = clients as [Redis, Redis];
    let made = 0;
    const divided: RedisClient = {
      options: commands.options,
      duplicate: (override) => (made++ === 0 ? commands : inbox).duplicate(override),
    };
    const store = new RedisLockStore({
      client: divided,
      clock: systemClock,
      keyPrefix: 'lock:',
      leaseMs: LEASE_MS,
      closeClient: async () => {},
    });

    await expect(store.open(new StoreEvents())).rejects.toMatchObject({
      code: 'LOCK_STORE_FAILED',
      message: expect.stringMatching(/messages published on one connection do not arrive/),
    });
    for (const { url } of servers) {
      const info = await openAdmin(url).info('stats');
      const connections = Number(/total_connections_received:(\d+)/.exec(info)?.[1]);
      expect(connections).toBeLessThan(25); // in ten seconds
    }
  });
});
