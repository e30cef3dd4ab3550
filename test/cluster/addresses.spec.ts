/** Nodes that do not report their address, or report a host name. */
import { describe, expect, it } from '@jest/globals';
import type { RedisServer } from 'dev-servers';
import type { LockEngine } from '../../libs/nestjs-locked/src/core/engine/lock-engine.js';
import type { RedisConnectionOptions } from '../../libs/nestjs-locked/src/redis/connection/server/open-redis.js';
import { eventually } from '../support/eventually.js';
import { openAdmin, openLocksOn } from '../support/open-locks.js';
import { startRedisCluster } from '../support/own-cluster.js';
import { startRedisServer } from '../support/own-redis.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { uniqueKey } from '../support/unique-key.js';

const open = async (connection: RedisConnectionOptions): Promise<LockEngine> =>
  (await openLocksOn(connection, { leaseMs: 1_500, waitMs: 10_000 })).engine;

describe('a node that is alone in its cluster, and does not know its own address', () => {
  async function startAlone(): Promise<RedisServer> {
    const node = await startRedisServer('--cluster-enabled', 'yes');
    const admin = openAdmin(node.url);
    await admin.call('CLUSTER', 'ADDSLOTSRANGE', 0, 16_383);
    await eventually(async () =>
      expect(String(await admin.cluster('INFO'))).toContain('cluster_state:ok'),
    );
    const [[, , [host]]] = (await admin.call('CLUSTER', 'SLOTS')) as [[number, number, [string]]];
    expect(host).toBe(''); // what the test is about
    return node;
  }

  async function locksWork(nodes: { host: string; port: number }[]): Promise<void> {
    const [one, other] = [await open({ cluster: nodes }), await open({ cluster: nodes })];
    const key = uniqueKey();
    const lock = await one.acquire([key, uniqueKey()]);
    expect(await other.tryAcquire(key)).toBe(null);
    const waiting = other.acquire(key);
    expect(await lock.release()).toBe(true);
    expect(await (await waiting).release()).toBe(true);
    expect(await one.ping()).toBeGreaterThan(0);
    const held = await one.acquire(key);
    const listed: string[] = [];
    for await (const info of other.list('*')) listed.push(info.key);
    expect(listed).toEqual([key]);
    await held.release();
  }

  it('is reached at the address that was given', async () => {
    const { port } = await startAlone();
    await locksWork([{ host: 'localhost', port }]);
  });

  it('is reached at the port that was given, if that differs outside of its container', async () => {
    const { port } = await startAlone();
    const { url } = await TcpProxy.start(port);
    await locksWork([{ host: '127.0.0.1', port: Number(new URL(url).port) }]);
  });
});

describe('nodes that are configured how to name each other', () => {
  it.each([
    ['not at all', ['--cluster-preferred-endpoint-type', 'unknown-endpoint'], '127.0.0.1'],
    [
      'by a name',
      ['--cluster-preferred-endpoint-type', 'hostname', '--cluster-announce-hostname', 'localhost'],
      'localhost',
    ],
    [
      'by a host name that they do not have',
      ['--cluster-preferred-endpoint-type', 'hostname'],
      '127.0.0.1',
    ],
  ])('%s: locks work, even when slots move', async (_how, args, host) => {
    const cluster = await startRedisCluster({ replicasPerMaster: 0, args });
    const locks = await openLocksOn(cluster.connection, { leaseMs: 1_500, waitMs: 10_000 });
    const one = locks.engine;
    const other = await open(cluster.connection);
    const key = uniqueKey();
    expect(locks.store.nodeOf(key)).toBe(`${host}:${(await cluster.masterOf(key)).port}`);
    const lock = await one.acquire(key);
    const waiting = other.acquire(key);
    const slot = await cluster.slotOf(key);
    const to = await cluster.otherMaster(key);
    await cluster.servers.beginMove(slot, to);
    await cluster.servers.moveKeys(slot);
    await lock.ensureRemaining(60_000); // ASK
    await cluster.servers.endMove(slot);
    expect(await lock.release()).toBe(true); // MOVED
    expect(locks.store.nodeOf(key)).toBe(`${host}:${to.port}`);
    expect(await (await waiting).release()).toBe(true);
    expect(await one.ping()).toBeGreaterThan(0);
    expect(locks.events).toEqual([]);
  });
});
