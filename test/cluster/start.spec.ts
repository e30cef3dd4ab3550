import { describe, expect, it } from '@jest/globals';
import type { RedisServer } from 'dev-servers';
import { Cluster, Redis } from 'ioredis';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  LockAbortedError,
  LockConfigError,
  LockStoreError,
} from '../../libs/nestjs-locked/src/core/lock.errors.js';
import { hashSlot } from '../../libs/nestjs-locked/src/redis/cluster/hash-slot.js';
import { openRedis } from '../../libs/nestjs-locked/src/redis/connection/server/open-redis.js';
import type { RedisCluster } from '../../libs/nestjs-locked/src/redis/connection/server/redis-cluster.js';
import { afterTest } from '../support/after-test.js';
import { eventually } from '../support/eventually.js';
import { openAdmin, openLocksOn } from '../support/open-locks.js';
import { newRedisStore } from '../support/open-redis-store.js';
import { startRedisCluster, useRedisCluster } from '../support/own-cluster.js';
import { startRedisServer } from '../support/own-redis.js';
import { standStillWhenConnected } from '../support/stand-still.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { uniqueKey } from '../support/unique-key.js';

const cluster = useRedisCluster();

function newCluster(...args: ConstructorParameters<typeof Cluster>): Cluster {
  const [nodes, options] = args;
  const client = new Cluster(nodes, { ...options, lazyConnect: true });
  afterTest(() => client.disconnect());
  return client;
}

/** The error with which a store on this client fails to open. */
async function refusal(client: RedisCluster): Promise<Error> {
  const { store, events } = newRedisStore(client, { leaseMs: 1_500 });
  const error: unknown = await store.open(events).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(Error);
  return error as Error;
}

async function lockNames({ url }: { url: string }, part: string): Promise<string[]> {
  const list = (await openAdmin(url).client('LIST')) as string;
  return [...list.matchAll(/ name=(\S+)/g)].flatMap(([, name = '']) =>
    name.includes(part) ? name : [],
  );
}

describe('hashSlot', () => {
  it('agrees with the server', async () => {
    expect(hashSlot('123456789')).toBe(0x31c3);
    const keys = ['', 'a', 'user1000', '{user1000}.following', 'foo{}{bar}', 'foo{{bar}}zap'];
    const more = [
      'foo{bar}{zap}',
      'a}b{c}',
      '{',
      'ünï{cödé}',
      'lock:{stock:42}:queue',
      '\u{1f512}',
    ];
    for (const key of [...keys, ...more]) {
      expect([key, hashSlot(key)]).toEqual([key, await cluster.servers.slotOf(key)]);
    }
  });
});

describe('a lock service on a Redis Cluster', () => {
  it('has two connections to each master and none to a replica, and leaves nothing', async () => {
    const { engine, store } = await cluster.openLocks();
    await (await engine.acquire(uniqueKey('k'))).release();
    const masters = await cluster.servers.masters();
    for (const server of cluster.servers.nodes) {
      const names = await lockNames(server, store.processId);
      expect(names.sort()).toEqual(
        masters.includes(server)
          ? [`lock:commands:${store.processId}`, `lock:inbox:${store.processId}`]
          : [],
      );
    }
    await engine.close(1_000);
    for (const server of masters) {
      await eventually(async () => expect(await lockNames(server, store.processId)).toEqual([]));
    }
    const record = `lock:process:${store.processId}`;
    const keeper = await cluster.servers.masterOf(hashSlot(record));
    expect(await openAdmin(keeper.url).exists(record)).toBe(0);
  });

  it('does not touch a client of the application, connected or closed', async () => {
    const idle = newCluster(cluster.servers.startupNodes);
    const closed = newCluster(cluster.servers.startupNodes);
    closed.disconnect();
    for (const client of [idle, closed]) {
      const before = client.status;
      const { engine } = await openLocksOn(client);
      await (await engine.acquire(uniqueKey('k'))).release();
      expect(client.status).toBe(before);
    }
  });

  it('needs one node that answers', async () => {
    const gone = await startRedisServer();
    await gone.stop();
    const [, node] = cluster.servers.startupNodes;
    const { engine } = await openLocksOn({
      cluster: [{ host: '127.0.0.1', port: gone.port }, node as { port: number }],
    });
    await (await engine.acquire(uniqueKey('k'))).release();
  });

  it('reaches the nodes through the addresses of natMap', async () => {
    const natMap: Record<string, { host: string; port: number }> = {};
    for (const { port } of cluster.servers.nodes) {
      const proxy = await TcpProxy.start(port);
      natMap[`127.0.0.1:${port}`] = { host: '127.0.0.1', port: Number(new URL(proxy.url).port) };
    }
    const nodes = Object.values(natMap);
    const { engine, store } = await openLocksOn(newCluster(nodes, { natMap }));
    const keys = Array.from({ length: 10 }, () => uniqueKey('k'));
    const [moving = ''] = keys;
    await cluster.servers.moveSlot(await cluster.slotOf(moving), await cluster.otherMaster(moving));
    for (const key of keys) {
      const lock = await engine.acquire(key);
      expect(nodes.map(({ port }) => `127.0.0.1:${port}`)).toContain(store.nodeOf(key));
      expect(await lock.release()).toBe(true);
    }
  });

  it.each([
    ['a prefix', 'app:'],
    ['a prefix with a hash tag, which keeps all locks in one slot', '{app}:'],
  ])('uses the keyPrefix of the client: %s', async (_what, keyPrefix) => {
    const { engine } = await openLocksOn(newCluster(cluster.servers.startupNodes, { keyPrefix }));
    const keys = [uniqueKey('k'), uniqueKey('k')];
    const lock = await engine.acquire(keys);
    const names = keys.map((key) => `${keyPrefix}lock:{${key}}`);
    for (const name of names) {
      const server = await cluster.servers.masterOf(hashSlot(name));
      expect(await openAdmin(server.url).exists(name)).toBe(1);
    }
    const listed: string[] = [];
    for await (const { key } of engine.list('*')) listed.push(key);
    expect(listed.sort()).toEqual(keys.sort());
    expect(await engine.forceRelease(keys[0] as string)).toBe(true);
    await eventually(() => expect(lock.isHeld).toBe(false));
  });

  it('needs only the rights that the message names', async () => {
    const nodes = cluster.servers.startupNodes;
    const grant = async (...rights: string[]): Promise<void> => {
      for (const { url } of cluster.servers.nodes)
        await openAdmin(url).acl('SETUSER', 'app', 'reset', 'on', '>secret', ...rights);
    };
    const redisOptions = { username: 'app', password: 'secret', enableReadyCheck: false };
    const client = newCluster(nodes, { redisOptions });

    await grant('~*', '&*', '+@all', '-publish');
    const error = await refusal(client);
    expect(error).toBeInstanceOf(LockConfigError);
    const [, named = ''] = /ACL SETUSER <user> (.*)$/.exec(error.message) ?? [];
    expect(named).toMatch(/\+cluster\|myid \+cluster\|slots/);

    await grant(...named.replace(/store-\w+:/g, 'lock:').split(' '));
    const { engine } = await openLocksOn(client);
    const other = await openLocksOn(client);
    const key = uniqueKey('k');
    const lock = await engine.acquire([key, uniqueKey('a')]);
    const waiting = other.engine.acquire(key);
    await cluster.servers.moveSlot(await cluster.slotOf(key), await cluster.otherMaster(key));
    expect(await lock.release()).toBe(true);
    expect(await (await waiting).release()).toBe(true);
  });

  it('reports a server that is not a node of a cluster', async () => {
    const { port } = await startRedisServer();
    const error = await refusal(newCluster([{ port }]));
    expect(error).toBeInstanceOf(LockConfigError);
    expect(error.message).toMatch(/^The server in 'connection' is not a node of a Redis Cluster/);
  });

  it('reports that no node answers', async () => {
    const gone = await startRedisServer();
    await gone.stop();
    const client = newCluster([{ port: gone.port }]);
    const { store, events } = newRedisStore(client, { leaseMs: 1_500, startMs: 600 });
    const error = (await store.open(events).catch((reason: unknown) => reason)) as Error;
    expect(error).toBeInstanceOf(LockStoreError);
    expect(error.message).toMatch(
      /^Cannot find the masters of the cluster within \d+ ms, at the Redis Cluster of localhost:\d+: \S+:\d+: connect /,
    );
    expect(error.message).toContain(`:${gone.port}: `);
  });

  it('reports that the node has too many connections, and has closed ours before we use it', async () => {
    const full = await startRedisServer('--cluster-enabled', 'yes');
    await openAdmin(full.url).config('SET', 'maxclients', '1');
    standStillWhenConnected();
    const client = newCluster([{ port: full.port }]);
    const { store, events } = newRedisStore(client, { leaseMs: 1_500, startMs: 600 });
    const error = (await store.open(events).catch((reason: unknown) => reason)) as Error;
    expect(error.message).toContain('max number of clients');
  });

  it('does not mistake a node that has not joined the cluster for the whole cluster', async () => {
    const lone = await startRedisServer('--cluster-enabled', 'yes');
    const client = newCluster([{ port: lone.port }]);
    const { store, events } = newRedisStore(client, { leaseMs: 1_500, startMs: 600 });
    const error = (await store.open(events).catch((reason: unknown) => reason)) as Error;
    expect(error).toBeInstanceOf(LockStoreError);
    expect(error.message).toMatch(
      /^Cannot find the masters of the cluster within \d+ ms, .* knows no master with slots; give the slots to the nodes/,
    );
  });

  it('queries no further node, and arms no timer, once it is closed', async () => {
    const asked = new Set<number>();
    const silent = await Promise.all(
      Array.from({ length: 3 }, async () => {
        const server = createServer((socket) => {
          asked.add(socket.localPort as number);
          socket.on('error', () => {}).resume();
        });
        server.listen(0, '127.0.0.1');
        await once(server, 'listening');
        afterTest(() => void server.close());
        return { host: '127.0.0.1', port: (server.address() as AddressInfo).port };
      }),
    );
    const { store, events, clock } = newRedisStore(newCluster(silent));
    const opening = store.open(events).catch((reason: unknown) => reason);
    await eventually(() => expect(asked.size).toBe(1));
    await store.close();
    expect(await opening).toBeInstanceOf(LockAbortedError);
    await sleep(1_500); // longer than one node may take
    expect(asked.size).toBe(1);
    expect(clock.timers).toBe(0); // nor does it go on querying, which would keep the process alive
  });

  it('gives up a master that is away, once it is closed', async () => {
    const { servers } = await startRedisCluster({ replicasPerMaster: 0, nodeTimeoutMs: 60_000 });
    const [away, ...others] = (await servers.masters()) as [RedisServer, ...RedisServer[]];
    away.pause();
    afterTest(() => away.resume());
    const { store, events, commands } = newRedisStore(newCluster(servers.startupNodes));
    const opening = store.open(events).catch((reason: unknown) => reason);
    for (const { url } of others)
      await eventually(async () => expect(await lockNames({ url }, commands)).toHaveLength(1));
    await store.close();
    expect(await Promise.race([opening, sleep(1_000)])).toBeInstanceOf(LockAbortedError);
  });

  it('waits for the replica of a master that has died, and not for that master', async () => {
    const { servers } = await startRedisCluster({ nodeTimeoutMs: 2_000 });
    const [victim] = (await servers.masters()) as [RedisServer];
    await victim.kill();
    const client = newCluster(servers.startupNodes);
    const { store, events, commands } = newRedisStore(client, { startMs: 30_000 });
    await store.open(events);
    const masters = await servers.masters();
    expect(masters).toHaveLength(3);
    for (const server of masters) expect(await lockNames(server, commands)).toHaveLength(1);
  });

  it('opens no connection for a query that ends after it was closed', async () => {
    const { servers } = await startRedisCluster();
    const client = newCluster(servers.startupNodes);
    const duplicate = client.duplicate.bind(client);
    let mayEnd = Promise.resolve();
    let ended = 0;
    client.duplicate = (...how) => {
      const eyes = duplicate(...how);
      const connect = eyes.connect.bind(eyes);
      eyes.connect = async () => {
        await connect();
        ended++;
        await mayEnd;
      };
      return eyes;
    };
    const { engine, store } = await openLocksOn(client);
    // Nothing is sent to this one, whose answer would name the new master before the cluster is queried.
    const asked = await servers.masterOf(hashSlot(`lock:process:${store.processId}`));
    const old = (await servers.masters()).find((master) => master !== asked) as RedisServer;
    const [next] = (await servers.replicasOf(old)) as [RedisServer];
    let endLooks = (): void => {};
    mayEnd = new Promise((resolve) => (endLooks = resolve));
    const before = ended;
    await servers.failover(next); // whichever node is asked now, it names a master that is new
    const listing = engine.list('*')[Symbol.asyncIterator]().next();
    listing.catch(() => {});
    await eventually(() => expect(ended).toBeGreaterThan(before));
    await engine.close(0);
    endLooks();
    await listing.catch(() => {});
    for (const until = performance.now() + 2_000; performance.now() < until; await sleep(50))
      expect(await lockNames(next, store.processId)).toEqual([]);
  });

  it('reports a wrong password', async () => {
    const redisOptions = { username: 'nobody', password: 'secret' };
    const error = await refusal(newCluster(cluster.servers.startupNodes, { redisOptions }));
    expect(error).toBeInstanceOf(LockConfigError);
    expect(error.message).toMatch(/Redis refuses user or password/);
  });

  it('refuses a list without nodes', () => {
    expect(() => openRedis({ cluster: [] })).toThrow(/cluster must be a list of nodes/);
    expect(() => openRedis({ cluster: 'redis://localhost' } as never)).toThrow(LockConfigError);
  });

  it('is not mistaken for a plain client', () => {
    const client = new Redis({ lazyConnect: true });
    afterTest(() => client.disconnect());
    expect(openRedis(client).client).toBe(client);
  });
});
