/** The locks are in the database that the connection asks for, or the start is refused. */
import { describe, expect, it } from '@jest/globals';
import type { Redis } from 'ioredis';
import { Cluster } from 'ioredis';
import { LockConfigError } from 'nestjs-locked';
import type { RedisConnectionOptions } from '../../libs/nestjs-locked/src/redis/connection/server/open-redis.js';
import type { RedisConnection } from '../../libs/nestjs-locked/src/redis/connection/server/redis-client.js';
import { selectDatabase } from '../../libs/nestjs-locked/src/redis/connection/server/select-database.js';
import { eventually } from '../support/eventually.js';
import { FakeSentinel } from '../support/fake-sentinel.js';
import { connectTo, versions } from '../support/ioredis-versions.js';
import { openAdmin, openLocksOn } from '../support/open-locks.js';
import { startRedisCluster } from '../support/own-cluster.js';
import { startRedisServer, useRedisServer } from '../support/own-redis.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { uniqueKey } from '../support/unique-key.js';

const server = useRedisServer({ args: ['--databases', '4'] });

/** Why a start with this connection is refused. */
async function refusalOf(connection: RedisConnectionOptions): Promise<string> {
  const start = openLocksOn(connection, { leaseMs: 1_500 });
  await expect(start).rejects.toBeInstanceOf(LockConfigError);
  return start.then(
    () => '',
    (error: unknown) => (error as Error).message,
  );
}

async function countOf(admin: Redis, database: number): Promise<number> {
  await admin.select(database);
  return admin.dbsize();
}

describe('a database that the server does not have', () => {
  const MISSING =
    "Database 4 in 'connection' does not exist: the server has 4, numbered from 0; use another number, or raise 'databases' in the configuration of the server";

  it.each<[string, () => RedisConnectionOptions | Promise<RedisConnectionOptions>]>([
    ['in a URL', () => `${server.url}/4`],
    ['as a parameter of a URL', () => `${server.url}?db=4`],
    ['in options', () => ({ port: server.port, db: 4 })],
    ['in options, as a text', () => ({ port: server.port, db: '4' as never })],
    [
      'of a master that sentinels name',
      async () => {
        const { endpoint } = await FakeSentinel.start(server.port);
        return { sentinels: [endpoint], name: 'mymaster', db: 4 };
      },
    ],
    ...versions.map(([version, connect]): [string, () => RedisConnectionOptions] => [
      `of a client of ${version}`,
      () => connectTo(connect, server.url, { db: 4, lazyConnect: true }),
    ]),
  ])('is refused by name: %s', async (_, connection) => {
    expect(await refusalOf(await connection())).toBe(MISSING);
  });

  it('is refused if the server may not be asked how many it has', async () => {
    await server.admin.call(
      'ACL',
      'SETUSER',
      'app',
      'on',
      '>secret',
      '~*',
      '&*',
      '+@all',
      '-config',
    );
    const app = { username: 'app', password: 'secret' };
    expect(await refusalOf({ port: server.port, db: 99, ...app })).toMatch(
      /^Database 99 in 'connection' does not exist \(ERR DB index is out of range\); most servers have 16/,
    );
  });

  it('is told apart from one that cannot be selected, because the server does not have SELECT', async () => {
    const { url } = await startRedisServer('--rename-command', 'SELECT', '');
    expect(await refusalOf(`${url}/1`)).toMatch(
      /^Database 1 in 'connection' cannot be selected: ERR unknown command .*leave the number out/,
    );
  });

  it('is refused on a cluster, which has only one', async () => {
    const { connection, servers } = await startRedisCluster({ replicasPerMaster: 0 });
    const ofCluster =
      "Database 2 in 'connection' does not exist: a Redis Cluster has only database 0; leave the number out";
    expect(await refusalOf({ ...connection, redisOptions: { db: 2 } })).toBe(ofCluster);
    const [{ port } = { port: 0 }] = servers.startupNodes;
    const nodes = [`redis://127.0.0.1:${port}/2`];
    const ignored = 'cluster: a node has the database 2, and a Redis Cluster has only database 0';
    for (const wrong of [
      { cluster: nodes },
      { cluster: [{ host: '127.0.0.1', port, db: 2 }] },
      new Cluster(nodes, { lazyConnect: true }),
    ])
      expect(await refusalOf(wrong)).toMatch(new RegExp(`${ignored.replace('2', "'?2'?")}`));
    // One of its nodes instead of the cluster: that says more than what it answers to SELECT.
    expect(await refusalOf(`redis://127.0.0.1:${port}/2`)).toContain(
      'is a node of a Redis Cluster',
    );
  });
});

describe('a cluster of Valkey 9', () => {
  /** What it answers, apart from the number of its databases. */
  function nodeWith(count: string, db: number): RedisConnection {
    const call = async (name: string, ...args: unknown[]): Promise<unknown> => {
      if (name === 'CONFIG' && args[1] === 'cluster-databases') return [args[1], count];
      if (name === 'CONFIG') return [args[1], '16'];
      throw Object.assign(new Error('ERR DB index is out of range'), { name: 'ReplyError' });
    };
    return { options: { db }, call } as unknown as RedisConnection;
  }

  it.each([
    ['1', 2, 'a Redis Cluster has only database 0; leave the number out'],
    [
      '4',
      9,
      "the server has 4, numbered from 0; use another number, or raise 'cluster-databases' in the configuration of the server",
    ],
  ])('that has %s', async (count, db, reason) => {
    await expect(selectDatabase(nodeWith(count, db), true)).rejects.toThrow(
      `Database ${db} in 'connection' does not exist: ${reason}`,
    );
  });
});

describe('a database that is not a number', () => {
  it.each<[string, RedisConnectionOptions]>([
    ['a word in a URL', 'redis://localhost/abc'],
    ['a word in a URL of TLS', 'rediss://localhost/abc'],
    ['a number and more', 'redis://localhost/3abc'],
    ['a negative number', 'redis://localhost/-1'],
    ['a fraction', 'redis://localhost/1.5'],
    ['two numbers', 'redis://localhost/1/2'],
    ['a word as parameter', 'redis://localhost?db=abc'],
    ['the rest of a password', 'redis://app:12/34@localhost:6379'],
    ['a variable that is not set', 'redis://localhost:6379/undefined'],
    ['a word for a socket', 'unix:///tmp/redis.sock?db=abc'],
    ['two of them', 'redis://localhost/3?db=5'],
    ['a word in options', { db: 'abc' as never }],
    ['a negative number in options', { db: -1 }],
    ['a fraction in options', { db: 1.5 }],
    ['not a number', { db: NaN }],
    ['an empty text', { db: '' as never }],
    ['a word for sentinels', { sentinels: [{ host: 'a' }], name: 'm', db: 'abc' as never }],
    ['a word for a cluster', { cluster: [{ host: 'a' }], redisOptions: { db: 'abc' as never } }],
  ])('is refused before anything is opened: %s', async (_, connection) => {
    expect(await refusalOf(connection)).toMatch(
      /^Invalid option connection: .*(?:db|database|'undefined'|percent-encoded)/,
    );
  });

  it.each(versions)('is refused if a client of %s has ignored it', async (_, connect) => {
    const client = connectTo(connect, 'redis://localhost/abc', { lazyConnect: true });
    expect(await refusalOf(client)).toContain('db: NaN must be the number of a database');
  });
});

describe('a database that the server has', () => {
  it.each<[string, () => RedisConnectionOptions]>([
    ['in a URL', () => `${server.url}/3`],
    ['as a parameter of a URL', () => `${server.url}?db=3`],
    ['given twice in the same way', () => `${server.url}/3?db=3`],
    ['in options, as a text', () => ({ port: server.port, db: '3' as never })],
  ])('has the locks: %s', async (_, connection) => {
    await server.admin.flushall();
    const { engine } = await openLocksOn(connection());
    const lock = await engine.acquire(uniqueKey());
    expect(await countOf(server.admin, 3)).toBeGreaterThan(0);
    expect(await countOf(server.admin, 0)).toBe(0);
    await lock.release();
  });

  it('needs no right to select if it is database 0', async () => {
    await server.admin.call(
      'ACL',
      'SETUSER',
      'first',
      'on',
      '>secret',
      '~*',
      '&*',
      '+@all',
      '-select',
    );
    const { engine } = await openLocksOn({
      port: server.port,
      username: 'first',
      password: 'secret',
    });
    expect(await engine.ping()).toBeGreaterThan(0);
  });

  it('is not replaced by another one when a later server lacks it: calls fail, and say why', async () => {
    const smaller = await startRedisServer('--databases', '2');
    const proxy = await TcpProxy.start(server.port);
    const { engine, events } = await openLocksOn(`${proxy.url}/3`, { leaseMs: 1_500 });
    await (await engine.acquire(uniqueKey())).release();

    proxy.leadTo(1); // nothing listens there
    proxy.cut();
    await eventually(() => expect(events.at(-1)).toMatchObject({ type: 'store-lost' }));
    proxy.leadTo(smaller.port);

    const says = "Database 3 in 'connection' does not exist: the server has 2";
    const told = (): string =>
      JSON.stringify(events.map((event) => 'cause' in event && event.cause.message));
    await eventually(() => {
      expect(events.at(-1)).toMatchObject({ type: 'store-lost' });
      expect(told()).toContain(says);
    });
    expect(told()).not.toContain('ERR DB index'); // what ioredis was answered, which says less
    await expect(engine.acquire(uniqueKey(), { waitMs: 1 })).rejects.toMatchObject({
      code: 'LOCK_STORE_FAILED',
      message: expect.stringContaining(says),
    });
    await expect(engine.ping()).rejects.toThrow(says);
    const admin = openAdmin(smaller.url);
    for (const database of [0, 1]) expect(await countOf(admin, database)).toBe(0);

    proxy.leadTo(server.port);
    await eventually(async () => expect(await engine.ping()).toBeGreaterThan(0));
    await (await engine.acquire(uniqueKey())).release();
  });

  it('is not replaced by another one when the right to select is lost', async () => {
    const user = ['ACL', 'SETUSER', 'selects'] as const;
    await server.admin.call(...user, 'on', '>secret', '~*', '&*', '+@all');
    const proxy = await TcpProxy.start(server.port);
    const url = `${proxy.url.replace('//', '//selects:secret@')}/3`;
    const { engine } = await openLocksOn(url, { leaseMs: 1_500 });
    await server.admin.flushall();
    await server.admin.call(...user, '-select');
    proxy.cut();
    await expect(engine.acquire(uniqueKey(), { waitMs: 1_000 })).rejects.toThrow(
      /: NOPERM.*select/,
    );
    expect(await countOf(server.admin, 0)).toBe(0);
  });
});
