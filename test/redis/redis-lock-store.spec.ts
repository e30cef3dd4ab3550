import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { RedisServer } from 'dev-servers';
import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { Redis as Redis5 } from 'ioredis5';
import type { LockStore } from '../../libs/nestjs-locked/src/core/store/lock-store.js';
import { LockConfigError, LockStoreError } from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { openRedis } from '../../libs/nestjs-locked/src/redis/connection/open-redis.js';
import type { RedisClient } from '../../libs/nestjs-locked/src/redis/connection/redis-client.js';
import { RedisLockStore } from '../../libs/nestjs-locked/src/redis/redis-lock-store.js';
import { afterTest } from '../support/after-test.js';
import { CountingClock } from '../support/counting-clock.js';
import { eventually } from '../support/eventually.js';
import { RedisMonitor } from '../support/redis-monitor.js';
import { StoreEvents } from '../support/store-events.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { uniqueKey } from '../support/unique-key.js';

const LEASE_MS = 30_000;
const BLOCK = 10_000;

/** Options that both versions have. */
type CommonOptions = Pick<
  RedisOptions,
  | 'db'
  | 'enableAutoPipelining'
  | 'enableOfflineQueue'
  | 'enableReadyCheck'
  | 'keyPrefix'
  | 'lazyConnect'
  | 'maxRetriesPerRequest'
  | 'password'
  | 'retryStrategy'
  | 'stringNumbers'
  | 'username'
>;
type Connect = (url: string, options?: CommonOptions) => Redis | Redis5;

const versions: readonly (readonly [string, Connect])[] = [
  ['ioredis 5', (url, options) => new Redis5(url, options as never)],
  ['ioredis 6', (url, options = {}) => new Redis(url, { ...options, protocol: 3 })],
];
const variants: readonly (readonly [string, Connect])[] = [
  ...versions,
  ['ioredis 6 with protocol 2', (url, options = {}) => new Redis(url, { ...options, protocol: 2 })],
  [
    'ioredis 6 with RESP3 replies',
    (url, options = {}) => new Redis(url, { ...options, protocol: 3, replyMapping: 'resp3' }),
  ],
  ['ioredis 5 with numbers as text', (url) => new Redis5(url, { stringNumbers: true })],
  ['ioredis 6 with numbers as text', (url) => new Redis(url, { stringNumbers: true })],
];

let server: RedisServer;
/** Looks at the server of this file from outside. */
let redis: Redis;

beforeAll(async () => {
  server = await RedisServer.start();
  redis = new Redis(server.url);
});
afterAll(async () => {
  redis.disconnect();
  await server.stop();
});

interface StoreOptions {
  readonly leaseMs?: number;
  readonly keyPrefix?: string;
  readonly clock?: CountingClock;
}

function newStore(client: RedisClient, options: StoreOptions = {}) {
  const { leaseMs = LEASE_MS, keyPrefix = `${uniqueKey('store')}:` } = options;
  const clock = options.clock ?? new CountingClock();
  const store = new RedisLockStore({
    client,
    clock,
    keyPrefix,
    leaseMs,
    closeClient: async () => {},
  });
  afterTest(() => store.close());
  const events = new StoreEvents();
  let count = 0;
  return {
    store,
    events,
    clock,
    keyPrefix,
    channel: `${keyPrefix}inbox:${store.processId}`,
    /** The name of its connection for commands. */
    commands: `${keyPrefix}commands:${store.processId}`,
    token: () => `${store.processId}:${++count}`,
    lockOf: (key: string) => `${keyPrefix}{${key}}`,
  };
}

async function openStore(client: RedisClient, options?: StoreOptions) {
  const it = newStore(client, options);
  await it.store.open(it.events);
  return it;
}

function connectTo(connect: Connect, url: string, options?: CommonOptions): Redis | Redis5 {
  const client = connect(url, options);
  client.on('error', () => {});
  afterTest(() => client.disconnect());
  return client;
}

async function ownServer(...args: string[]): Promise<RedisServer> {
  const own = await RedisServer.start({ args });
  afterTest(() => own.stop());
  return own;
}

/** Looks at a server from outside. */
function lookAt(target: RedisServer): Redis {
  const look = new Redis(target.url);
  afterTest(() => look.disconnect());
  return look;
}

async function proxyTo(target: RedisServer): Promise<TcpProxy> {
  const proxy = await TcpProxy.start(target.port);
  afterTest(() => proxy.stop());
  return proxy;
}

async function monitorOf(target: RedisServer): Promise<RedisMonitor> {
  const monitor = await RedisMonitor.start(target.port);
  afterTest(() => monitor.stop());
  return monitor;
}

/** Server ids of the connections with this name. */
async function connectionsNamed(name: string, through = redis): Promise<string[]> {
  const list = (await through.client('LIST')) as string;
  return list
    .split('\n')
    .filter((line) => line.split(' ').includes(`name=${name}`))
    .map((line) => /\bid=(\d+)/.exec(line)?.[1] ?? '');
}

/** One of each command, for keys that nobody else uses. */
function everyCommand(
  store: LockStore,
  token: () => string,
): Record<string, () => Promise<unknown>> {
  const key = uniqueKey();
  return {
    acquire: () => store.acquire({ key, token: token(), leaseMs: LEASE_MS, nowait: false }),
    recheck: () =>
      store.recheck({ key, token: token(), newToken: token(), leaseMs: LEASE_MS, score: 1 }),
    renew: () =>
      store
        .renew([{ key, token: token(), leaseMs: LEASE_MS, used: 1 }])
        .then((replies) => replies[0]),
    release: () => store.release({ key, token: token(), used: 1 }),
    requeue: () =>
      store.requeue({ key, token: token(), used: 1, newToken: token(), leaseMs: LEASE_MS }),
    leave: () => store.leave({ key, tokens: [token()], take: false, leaseMs: LEASE_MS }),
  };
}

describe.each(variants)('RedisLockStore over %s', (_version, connect) => {
  test('gives every reply as a union, and every message as it was meant', async () => {
    const key = 'stock 42: größe';
    const keyPrefix = `${uniqueKey('store')}:`;
    const [a, b] = await Promise.all([
      openStore(connectTo(connect, server.url), { keyPrefix }),
      openStore(connectTo(connect, server.url), { keyPrefix }),
    ]);
    const [a1, a2, b1, b2, b3] = [a.token(), a.token(), b.token(), b.token(), b.token()];
    const ask = { key, leaseMs: LEASE_MS, nowait: false };
    const number = expect.any(Number);

    const first = await a.store.acquire({ ...ask, token: a1 });
    expect(first).toEqual({
      kind: 'granted',
      token: a1,
      fence: number,
      blockEnd: number,
      waiters: 0,
    });
    if (first.kind !== 'granted') throw new Error('not granted');
    expect(first.blockEnd).toBe(first.fence + BLOCK);

    const busy = await b.store.acquire({ ...ask, nowait: true, token: b1 });
    expect(busy).toEqual({ kind: 'busy', remainingMs: number, foreign: false });
    expect(await a.events.next()).toEqual({ kind: 'wanted', key, token: a1 });

    const place = await b.store.acquire({ ...ask, token: b1 });
    expect(place).toEqual({
      kind: 'queued',
      token: b1,
      score: number,
      remainingMs: number,
      foreign: false,
    });
    if (place.kind !== 'queued') throw new Error('not queued');
    expect(await a.events.next()).toEqual({ kind: 'wanted', key, token: a1 });

    const { score } = place;
    const again = { key, token: b1, newToken: b2, leaseMs: LEASE_MS, score };
    expect(await b.store.recheck(again)).toMatchObject({ kind: 'queued', token: b2, score });
    expect(await a.events.next()).toEqual({ kind: 'wanted', key, token: a1 });

    const used = first.fence + 7;
    expect(
      await a.store.renew([
        { key, token: a1, leaseMs: LEASE_MS, used },
        { key, token: b2, leaseMs: LEASE_MS, used },
      ]),
    ).toEqual([{ kind: 'renewed', blockEnd: used + BLOCK, waiters: 1 }, { kind: 'lost' }]);

    const requeued = await a.store.requeue({
      key,
      token: a1,
      used,
      newToken: a2,
      leaseMs: LEASE_MS,
    });
    expect(requeued).toMatchObject({ kind: 'queued', token: a2, foreign: false });
    const grant = await b.events.next();
    expect(grant).toEqual({
      kind: 'grant',
      key,
      token: b2,
      fence: number,
      blockEnd: number,
      waiters: 1,
      acceptMs: 3_000,
    });
    if (typeof grant === 'string' || grant.kind !== 'grant') throw new Error('no grant');
    expect(grant.fence).toBeGreaterThan(used);

    expect(await a.store.release({ key, token: a1, used })).toEqual({ kind: 'lost' });
    expect(await a.store.leave({ key, tokens: [a2], take: false, leaseMs: 0 })).toEqual({
      kind: 'left',
    });
    expect(
      await b.store.leave({ key, tokens: [b3, b2], take: true, leaseMs: LEASE_MS }),
    ).toMatchObject({ kind: 'granted', token: b2 });
    expect(await b.store.release({ key, token: b2, used: grant.fence })).toEqual({
      kind: 'released',
    });
    expect(a.events.log.takeAll().concat(b.events.log.takeAll())).toEqual([]);
  });

  test('tells a foreign holder without an end from one of ours', async () => {
    const it = await openStore(connectTo(connect, server.url));
    await redis.set(it.lockOf('x'), 'somebody');
    const ask = { key: 'x', token: it.token(), leaseMs: LEASE_MS };

    expect(await it.store.acquire({ ...ask, nowait: true })).toEqual({
      kind: 'busy',
      remainingMs: Infinity,
      foreign: true,
    });
    expect(await it.store.acquire({ ...ask, nowait: false })).toMatchObject({
      kind: 'queued',
      remainingMs: Infinity,
      foreign: true,
    });
  });
});

describe.each(versions)('RedisLockStore over %s', (_version, connect) => {
  test('answers unknown within its time limit while Redis hangs, and works again afterwards', async () => {
    const own = await ownServer();
    const client = connectTo(connect, own.url);
    const it = await openStore(client, { leaseMs: 1_500 });
    expect(it.store.commandTimeoutMs).toBe(500);

    own.pause();
    const before = performance.now();
    const commands = Object.entries(everyCommand(it.store, it.token));
    const replies = await Promise.all(commands.map(([, send]) => send()));

    expect(performance.now() - before).toBeLessThan(5_000);
    for (const [i, [kind]] of commands.entries()) {
      const cause = expect.objectContaining({
        code: 'LOCK_STORE_FAILED',
        message: expect.stringMatching(
          new RegExp(
            `^Cannot ${kind === 'requeue' ? 'release' : kind} .* did not answer within 500 ms$`,
          ),
        ),
      });
      expect(replies[i]).toEqual({ kind: 'unknown', cause });
      expect((replies[i] as { cause: unknown }).cause).toBeInstanceOf(LockStoreError);
    }

    own.resume();
    await eventually(async () => {
      const ask = { key: uniqueKey(), token: it.token(), leaseMs: LEASE_MS, nowait: false };
      expect(await it.store.acquire(ask)).toMatchObject({ kind: 'granted' });
    });
  });

  test('carries out what was asked while Redis hung, before the clean-up that was asked later', async () => {
    const own = await ownServer();
    const it = await openStore(connectTo(connect, own.url), { leaseMs: 1_500 });
    const look = lookAt(own);
    const [warm, token] = [it.token(), it.token()];
    const ask = { key: 'x', leaseMs: LEASE_MS, nowait: false };
    await it.store.acquire({ ...ask, token: warm });
    await it.store.release({ key: 'x', token: warm, used: 0 });

    own.pause();
    expect(await it.store.acquire({ ...ask, token })).toMatchObject({ kind: 'unknown' });
    const leave = { key: 'x', tokens: [token] as const, take: false, leaseMs: 0 };
    expect(await it.store.leave(leave)).toMatchObject({ kind: 'unknown' });
    own.resume();

    await eventually(async () =>
      expect(await it.store.leave(leave)).toMatchObject({ kind: 'left' }),
    );
    expect(await look.exists(it.lockOf('x'), `${it.lockOf('x')}:queue`)).toBe(0);
    expect(await look.exists(`${it.lockOf('x')}:fence`)).toBe(1);
  });

  test('answers unknown with the reason when Redis refuses', async () => {
    const it = await openStore(connectTo(connect, server.url));
    await redis.hset(it.lockOf('x'), 'owner', '1');
    await redis.pexpire(it.lockOf('x'), 20_000);

    const reply = await it.store.acquire({
      key: 'x',
      token: it.token(),
      leaseMs: LEASE_MS,
      nowait: false,
    });

    expect(reply).toMatchObject({
      kind: 'unknown',
      cause: {
        code: 'LOCK_STORE_FAILED',
        message: expect.stringMatching(/^Cannot acquire 'x': WRONGTYPE/),
      },
    });
  });

  test('acquire answers unknown and release still works when Redis is out of memory', async () => {
    const own = await ownServer('--maxmemory', '4mb', '--maxmemory-policy', 'noeviction');
    const it = await openStore(connectTo(connect, own.url));
    const look = lookAt(own);
    const [held, tried] = [it.token(), it.token()];
    const ask = { leaseMs: LEASE_MS, nowait: false };
    await it.store.acquire({ ...ask, key: 'held', token: held });
    const release = { key: 'held', token: held, used: 0 };
    await it.store.release({ ...release, token: tried }); // the server knows the script
    await fill(look);

    expect(await it.store.acquire({ ...ask, key: 'free', token: tried })).toMatchObject({
      kind: 'unknown',
      cause: { message: expect.stringContaining('OOM') },
    });
    expect(await it.store.release(release)).toEqual({ kind: 'released' });
  });

  test('works through SCRIPT FLUSH as if nothing had happened', async () => {
    const own = await ownServer();
    const it = await openStore(connectTo(connect, own.url));
    const look = lookAt(own);
    for (let round = 1; round <= 2; round++) {
      for (const send of Object.values(everyCommand(it.store, it.token))) {
        await look.script('FLUSH');
        expect(await send()).not.toMatchObject({ kind: 'unknown' });
      }
    }
  });

  test('does not send a script whole when its caller has stopped waiting', async () => {
    const own = await ownServer();
    const client = connectTo(connect, own.url);
    const it = await openStore(client, { clock: new CountingClock(300) });
    const look = lookAt(own);
    const monitor = await monitorOf(own);

    await look.script('FLUSH');
    own.pause();
    const ask = { key: 'x', token: it.token(), leaseMs: LEASE_MS, nowait: false };
    expect(await it.store.acquire(ask)).toMatchObject({ kind: 'unknown' });
    own.resume();

    // Answered after the EVALSHA, and after an EVAL that followed it.
    for (let i = 0; i < 2; i++) {
      await eventually(async () =>
        expect(await it.store.directory.inspect('y').then(() => 'answered')).toBe('answered'),
      );
    }
    const sent = (await monitor.commands()).filter(({ args }) => args.includes(it.lockOf('x')));
    expect(sent.map(({ name }) => name)).toEqual(['evalsha']);
    expect(await look.exists(it.lockOf('x'))).toBe(0);
  });

  test('release is released, not lost, when its answer was lost with the connection', async () => {
    const proxy = await proxyTo(server);
    const it = await openStore(connectTo(connect, proxy.url, { lazyConnect: true }));
    const token = it.token();
    await it.store.acquire({ key: 'x', token, leaseMs: LEASE_MS, nowait: false });

    proxy.swallowAnswersOfOldest();
    const release = it.store.release({ key: 'x', token, used: 0 });
    await eventually(async () => expect(await redis.exists(it.lockOf('x'))).toBe(0));
    proxy.cut();

    expect(await release).toEqual({ kind: 'released' });
    expect(await it.store.release({ key: 'x', token, used: 0 })).toEqual({ kind: 'lost' });
  });
});

describe.each(versions)('the client of the user, %s', (_version, connect) => {
  test('is left as it was: open, with its options, members and listeners', async () => {
    const client = connectTo(connect, server.url);
    await client.ping();
    const look = () => ({
      status: client.status,
      options: { ...client.options },
      members: Object.getOwnPropertyNames(client).sort(),
      methods: Object.getOwnPropertyNames(Object.getPrototypeOf(client)).sort(),
      listeners: client.eventNames().map((name) => [name, client.listenerCount(name)]),
    });
    const before = look();

    const it = await openStore(client);
    await it.store.acquire({ key: 'x', token: it.token(), leaseMs: LEASE_MS, nowait: false });
    const during = look();
    await it.store.close();

    expect(during).toEqual(before);
    expect(look()).toEqual(before);
    expect(await client.ping()).toBe('PONG');
    await eventually(async () => expect(await connectionsNamed(it.channel)).toEqual([]));
  });

  test('may have a key prefix: keys have it, channels have not', async () => {
    const prefix = `${uniqueKey('app')}:`;
    const a = await openStore(connectTo(connect, server.url, { keyPrefix: prefix }));
    const b = await openStore(connectTo(connect, server.url, { keyPrefix: prefix }), a);
    const without = await openStore(connectTo(connect, server.url), a);
    const ask = { key: 'x', leaseMs: LEASE_MS, nowait: false };
    const [token, waiting, other] = [a.token(), b.token(), without.token()];

    expect(await a.store.acquire({ ...ask, token })).toMatchObject({ kind: 'granted' });
    expect(await redis.get(`${prefix}${a.lockOf('x')}`)).toBe(token);
    expect(await b.store.acquire({ ...ask, token: waiting })).toMatchObject({ kind: 'queued' });
    expect(await a.events.next()).toEqual({ kind: 'wanted', key: 'x', token });
    await a.store.release({ key: 'x', token, used: 0 });
    expect(await b.events.next()).toMatchObject({ kind: 'grant', key: 'x', token: waiting });
    expect(await redis.pubsub('NUMSUB', a.channel)).toEqual([a.channel, 1]);
    expect(await without.store.acquire({ ...ask, token: other })).toMatchObject({
      kind: 'granted',
    });
  });

  test('may use another database', async () => {
    const it = await openStore(connectTo(connect, server.url, { db: 3 }));
    const token = it.token();

    await it.store.acquire({ key: 'x', token, leaseMs: LEASE_MS, nowait: false });

    const look = new Redis(server.url, { db: 3 });
    afterTest(() => look.disconnect());
    expect(await look.get(it.lockOf('x'))).toBe(token);
    expect(await redis.exists(it.lockOf('x'))).toBe(0);
  });

  test.each([
    ['no off-line queue', { enableOfflineQueue: false }],
    ['no retries', { maxRetriesPerRequest: 0 }],
    ['auto-pipelining', { enableAutoPipelining: true }],
  ])('may have %s', async (_option, options) => {
    const it = await openStore(connectTo(connect, server.url, options));

    const token = it.token();
    const ask = { key: 'x', token, leaseMs: LEASE_MS, nowait: false };
    expect(await it.store.acquire(ask)).toMatchObject({ kind: 'granted' });
  });

  test('need not be connected, and is not connected by us', async () => {
    const client = connectTo(connect, server.url, { lazyConnect: true });
    const it = await openStore(client);

    const ask = { key: 'x', token: it.token(), leaseMs: LEASE_MS, nowait: false };
    expect(await it.store.acquire(ask)).toMatchObject({ kind: 'granted' });
    await it.store.close();
    expect(client.status).toBe('wait');
  });

  test('that does not reconnect by itself does not keep the connections of the locks from doing so', async () => {
    const it = await openStore(connectTo(connect, server.url, { retryStrategy: () => null }));
    for (const name of [it.channel, it.commands]) {
      const [id = ''] = await connectionsNamed(name);
      await redis.client('KILL', 'ID', id);
    }

    expect(await it.events.next()).toBe('inboxLost');
    expect(await it.events.next(5_000)).toBe('reconnected');
    const ask = { key: 'x', token: it.token(), leaseMs: LEASE_MS, nowait: false };
    expect(await it.store.acquire(ask)).toMatchObject({ kind: 'granted' });
  });
});

describe.each(versions)('the inbox over %s', (_version, connect) => {
  test('is ready after open, and after close neither ready nor connected nor waiting for a timer', async () => {
    const client = connectTo(connect, server.url);
    const it = newStore(client);
    expect(it.store.inboxReady).toBe(false);

    await it.store.open(it.events);
    expect(it.store.inboxReady).toBe(true);
    expect(await redis.pubsub('NUMSUB', it.channel)).toEqual([it.channel, 1]);
    expect(await connectionsNamed(it.channel)).toHaveLength(1);

    await it.store.close();
    expect(it.store.inboxReady).toBe(false);
    expect(it.clock.timers).toBe(0);
    await eventually(async () => expect(await connectionsNamed(it.channel)).toEqual([]));
    expect(it.events.log.all).toEqual([]);
  });

  test('comes back each time it is killed; messages arrive when it says so', async () => {
    const it = await openStore(connectTo(connect, server.url));
    for (let round = 1; round <= 4; round++) {
      const [id = ''] = await connectionsNamed(it.channel);
      const subscribers = new Promise<unknown>((resolve) => {
        it.events.reconnected = () => {
          it.events.log.add('reconnected');
          resolve(redis.pubsub('NUMSUB', it.channel));
        };
      });

      await redis.client('KILL', 'ID', id);

      expect(await it.events.next()).toBe('inboxLost');
      expect(await it.events.next()).toBe('reconnected');
      expect(await subscribers).toEqual([it.channel, 1]);
      expect(it.store.inboxReady).toBe(true);
      await redis.publish(it.channel, `w ${round} x`);
      expect(await it.events.next()).toEqual({ kind: 'wanted', token: String(round), key: 'x' });
    }
  });

  test('comes back with its server', async () => {
    const own = await ownServer();
    const it = await openStore(connectTo(connect, own.url));

    await own.kill();
    expect(await it.events.next()).toBe('inboxLost');
    expect(it.store.inboxReady).toBe(false);
    await own.restart();

    await eventually(() => expect(it.store.inboxReady).toBe(true));
    const token = it.token();
    await eventually(async () =>
      expect(
        await it.store.acquire({ key: 'x', token, leaseMs: LEASE_MS, nowait: false }),
      ).toMatchObject({ kind: 'granted' }),
    );
  });

  test('says that messages may have been lost when the command connection is ready again', async () => {
    const it = await openStore(connectTo(connect, server.url));
    const [id = ''] = await connectionsNamed(it.commands);

    await redis.client('KILL', 'ID', id);

    expect(await it.events.next()).toBe('reconnected');
    expect(it.store.inboxReady).toBe(true);
  });

  test.each([
    ['its connection', {}],
    ['a connection whose socket ioredis does not watch (before 5.4)', { socketTimeout: undefined }],
  ])('notices that %s has fallen silent', async (_, override) => {
    const proxy = await proxyTo(server);
    const client = connectTo(connect, proxy.url);
    const duplicate = client.duplicate.bind(client) as RedisClient['duplicate'];
    const it = await openStore(
      {
        options: client.options,
        duplicate: (options) => duplicate({ ...options, ...override }),
      },
      { leaseMs: 1_500 },
    );

    proxy.silenceNewest();

    expect(await it.events.next()).toBe('inboxLost');
    expect(await it.events.next()).toBe('reconnected');
    expect(await redis.pubsub('NUMSUB', it.channel)).toEqual([it.channel, expect.any(Number)]);
    await redis.publish(it.channel, 'w 1 x');
    expect(await it.events.next()).toEqual({ kind: 'wanted', token: '1', key: 'x' });
  });

  test('notices that a new connection is silent from the start', async () => {
    const proxy = await proxyTo(server);
    const it = await openStore(connectTo(connect, proxy.url), { leaseMs: 1_500 });

    const next = proxy.nextConnection();
    proxy.silenceNewest({ alsoToCome: true });
    expect(await it.events.next()).toBe('inboxLost');
    await next;
    proxy.heal();

    expect(await it.events.next()).toBe('reconnected');
  });

  test('says so once, and has one timer, after a subscription that was interrupted', async () => {
    const proxy = await proxyTo(server);
    const it = await openStore(connectTo(connect, proxy.url), { leaseMs: 15_000 });
    const [id = ''] = await connectionsNamed(it.channel);
    const timers = it.clock.timers;

    const unanswered = proxy.silenceAt('subscribe');
    await redis.client('KILL', 'ID', id);
    await unanswered;
    proxy.cutNewest();

    expect(await it.events.next()).toBe('inboxLost');
    expect(await it.events.next()).toBe('reconnected');
    await redis.publish(it.channel, 'w 1 x');
    expect(await it.events.next()).toEqual({ kind: 'wanted', token: '1', key: 'x' });
    // The unanswered subscription keeps its time limit until that is over.
    await eventually(() => expect(it.clock.timers).toBe(timers));
  });

  test('ignores what is not a message of ours', async () => {
    const it = await openStore(connectTo(connect, server.url));
    for (const text of [
      '',
      ' ',
      'x',
      'w',
      'g',
      'g a',
      'g a 1 2 x 4 n',
      'h a',
      'h a x n',
      'probe',
      'probe 1',
      '{}',
    ]) {
      await redis.publish(it.channel, text);
    }
    await redis.publish(it.channel, 'w 1 last');

    expect(await it.events.next()).toEqual({ kind: 'wanted', token: '1', key: 'last' });
  });
});

describe.each(versions)('RedisLockStore.open over %s', (_version, connect) => {
  /** No step of opening waits longer than this. */
  const impatient = () => new CountingClock(1_500);

  /** Opens a store that must not open. */
  async function failToOpen(client: RedisClient, options?: StoreOptions): Promise<Error> {
    let closings = 0;
    const keyPrefix = options?.keyPrefix ?? 'lock:';
    const clock = options?.clock ?? impatient();
    const closeClient = async () => void closings++;
    const store = new RedisLockStore({ client, clock, keyPrefix, leaseMs: LEASE_MS, closeClient });
    const error = await store.open(new StoreEvents()).then(
      () => new Error('it opened'),
      (reason: unknown) => reason as Error,
    );
    await store.close().catch(() => {});
    expect({ closed: closings > 0, ready: store.inboxReady }).toEqual({
      closed: true,
      ready: false,
    });
    await eventually(() => expect(clock.timers).toBe(0));
    return error;
  }

  /** A connection of a user with these rights. */
  async function userWith(...rights: string[]): Promise<Redis | Redis5> {
    const username = uniqueKey('user');
    await redis.acl('SETUSER', username, 'on', '>secret', ...rights);
    const options = { username, password: 'secret', enableReadyCheck: false };
    return connectTo(connect, server.url, options);
  }

  test('rejects with LockStoreError that names the way out when nobody listens', async () => {
    const gone = await ownServer();
    await gone.stop();

    const error = await failToOpen(connectTo(connect, gone.url));

    expect(error).toBeInstanceOf(LockStoreError);
    expect(error.message).toMatch(
      /^Cannot connect within .*ECONNREFUSED.*check the address in 'connection', and that Redis runs$/,
    );
    expect(error).toMatchObject({ cause: { code: 'ECONNREFUSED' } });
  });

  test('rejects with LockStoreError when Redis hangs', async () => {
    const own = await ownServer();
    const client = connectTo(connect, own.url);
    await client.ping();
    own.pause();

    const error = await failToOpen(client);

    expect(error).toBeInstanceOf(LockStoreError);
    expect(error.message).toMatch(/^Cannot connect .* did not answer/);
  });

  test.each([
    ['a wrong password', { password: 'wrong' }, /WRONGPASS/],
    ['no password', {}, /NOAUTH/],
  ])('rejects with what Redis said to %s', async (_what, options, reason) => {
    const own = await ownServer();
    await lookAt(own).config('SET', 'requirepass', 'secret');

    const error = await failToOpen(connectTo(connect, own.url, options));

    expect(error).toMatchObject({
      code: expect.stringMatching(/^LOCK_(STORE_FAILED|CONFIG_INVALID)$/),
    });
    expect(error.message).toMatch(reason);
  });

  test('rejects with LockConfigError that names the rule when the user has no channels', async () => {
    const error = await failToOpen(await userWith('~*', '+@all', 'resetchannels'));

    expect(error).toBeInstanceOf(LockConfigError);
    expect(error.message).toMatch(/channel/);
    expect(error.message).toContain('&lock:inbox:*');
  });

  test('rejects with LockConfigError when the user may listen to the inbox but has no keys', async () => {
    const error = await failToOpen(await userWith('~other:*', '+@all', '&*'));

    expect(error).toBeInstanceOf(LockConfigError);
    expect(error.message).toMatch(/key/);
    expect(error.message).toContain('~lock:*');
  });

  test('rejects with LockConfigError when the user may not run scripts', async () => {
    const error = await failToOpen(await userWith('~*', '&*', '+@all', '-@scripting'));

    expect(error).toBeInstanceOf(LockConfigError);
    expect(error.message).toMatch(/evalsha/);
  });

  test.each(['get', 'pexpire', 'pttl', 'zrem', 'zcard', 'zrange', 'pubsub'])(
    'rejects with LockConfigError when the user may not use %s, which the scripts need',
    async (command) => {
      const error = await failToOpen(await userWith('~*', '&*', '+@all', `-${command}`));

      expect(error).toBeInstanceOf(LockConfigError);
    },
  );

  test('is content with the rights that the message names', async () => {
    const it = await openStore(await userWith('~lock:*', '&lock:inbox:*', '+@all'), {
      keyPrefix: 'lock:',
    });
    const key = uniqueKey();
    const [a, b, c] = [it.token(), it.token(), it.token()];
    const ask = { key, leaseMs: LEASE_MS, nowait: false };

    expect(await it.store.acquire({ ...ask, token: a })).toMatchObject({ kind: 'granted' });
    expect(await it.store.acquire({ ...ask, token: b })).toMatchObject({ kind: 'queued' });
    expect(
      await it.store.requeue({ key, token: a, used: 0, newToken: c, leaseMs: LEASE_MS }),
    ).toMatchObject({
      kind: 'queued',
    });
    expect(await it.store.release({ key, token: b, used: 0 })).toEqual({ kind: 'released' });
    expect(await it.store.release({ key, token: c, used: 0 })).toEqual({ kind: 'released' });
  });

  test.each([
    ['5.0.14', /^Redis 5\.0 is too old: nestjs-locked needs 6\.2 or newer$/],
    ['6.0.20', /^Redis 6\.0 is too old: nestjs-locked needs 6\.2 or newer$/],
  ])('rejects with LockConfigError for Redis %s', async (version, message) => {
    const error = await failToOpen(saying(`redis_version:${version}\r\n`));

    expect(error).toBeInstanceOf(LockConfigError);
    expect(error.message).toMatch(message);
  });

  test.each(['redis_version:6.2.0', 'redis_version:10.0.0', 'server_name:other', ''])(
    'accepts a server that says %j',
    async (info) => {
      await openStore(saying(info));
    },
  );

  test('accepts a server that does not let the user ask for its version', async () => {
    const client = await userWith('~*', '&*', '+@all', '-info');
    await openStore(client);
  });

  /** A client whose server says this about itself. */
  function saying(info: string): RedisClient {
    const client: RedisClient = connectTo(connect, server.url);
    return {
      options: client.options,
      duplicate: (override) => {
        const connection = client.duplicate(override);
        // Before it is ready it asks for itself.
        const ask = connection.info.bind(connection);
        connection.info = (...args) =>
          connection.status === 'ready' ? Promise.resolve(info) : ask(...args);
        return connection;
      },
    };
  }
});

describe('a connection that breaks while the store is closed', () => {
  test('leaves neither a timer nor a word of this process behind', async () => {
    const proxy = await proxyTo(server);
    const it = await openStore(connectTo(versions[1]![1], proxy.url));
    const unanswered = proxy.silenceAt('del');
    const closed = it.store.close();
    await unanswered;
    proxy.cut();
    await closed;
    expect(it.clock.timers).toBe(0);
    expect(await redis.exists(`${it.keyPrefix}process:${it.store.processId}`)).toBe(0);
  });
});

describe('openRedis', () => {
  test.each([
    ['a URL', () => server.url],
    ['options', () => ({ port: server.port, db: 2 })],
  ])('makes a client from %s, and closes it', async (_what, connection) => {
    const opened = openRedis(connection());
    afterTest(() => opened.close());
    const it = await openStore(opened.client);
    const token = it.token();
    expect(
      await it.store.acquire({ key: 'x', token, leaseMs: LEASE_MS, nowait: false }),
    ).toMatchObject({ kind: 'granted' });

    await opened.close();

    await eventually(() => expect((opened.client as Redis).status).toBe('end'));
  });

  test('makes a client that gives up a connection that has fallen silent', async () => {
    const proxy = await proxyTo(server);
    const opened = openRedis(proxy.url);
    afterTest(() => opened.close());
    const it = await openStore(opened.client, { leaseMs: 1_500 });

    proxy.silenceOldest();

    await eventually(async () => {
      const ask = { key: 'x', token: it.token(), leaseMs: LEASE_MS, nowait: true };
      expect(await it.store.acquire(ask)).not.toMatchObject({ kind: 'unknown' });
    });
  });

  test.each(versions)(
    'takes a client of %s as it is, and does not close it',
    async (_version, connect) => {
      const client = connectTo(connect, server.url);

      const opened = openRedis(client);
      await opened.close();

      expect(opened.client).toBe(client);
      expect(await client.ping()).toBe('PONG');
    },
  );

  test('prints nothing and throws nothing while its server is away', async () => {
    const gone = await ownServer();
    await gone.stop();
    const opened = openRedis(gone.url);
    afterTest(() => opened.close());
    const refused = newStore(opened.client, { clock: new CountingClock(300) });

    await expect(refused.store.open(refused.events)).rejects.toThrow(LockStoreError);
  });

  test.each([
    ['nothing', undefined],
    ['null', null],
    ['a number', 6379],
    ['an address that is no URL', 'localhost:6379'],
    ['an empty text', ''],
    ['another kind of URL', 'http://localhost:6379'],
    ['a function', () => {}],
  ])('refuses %s', (_what, connection) => {
    expect(() => openRedis(connection as never)).toThrow(LockConfigError);
    expect(() => openRedis(connection as never)).toThrow(
      /^Invalid option connection: .* must be a URL such as 'redis:\/\/localhost:6379', ioredis options, or an ioredis client$/s,
    );
  });

  test.each([
    ['a list of servers', () => [server.url]],
    ['a client of another library', () => new (class OtherClient {})()],
    [
      'a cluster',
      () => {
        const cluster = new Cluster([{ port: server.port }], { lazyConnect: true });
        afterTest(() => cluster.disconnect());
        return cluster;
      },
    ],
  ])('refuses %s, which it cannot use, instead of connecting to localhost', (_what, connection) => {
    expect(() => {
      const opened = openRedis(connection());
      void opened.close();
    }).toThrow(LockConfigError);
  });
});

async function fill(full: Redis): Promise<void> {
  for (const size of [100_000, 1_000, 10]) {
    for (let i = 0; ; i++) {
      const refused = await full.set(`fill:${size}:${i}`, 'x'.repeat(size)).then(
        () => false,
        () => true,
      );
      if (refused) break;
    }
  }
}
