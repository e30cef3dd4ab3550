/** Nodes that are in no view of the cluster, because a slot is still moving to them. */
import { expect, it } from '@jest/globals';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../../libs/nestjs-locked/src/core/time/clock.js';
import { ClusterNodes } from '../../libs/nestjs-locked/src/redis/cluster/cluster-nodes.js';
import type { LockServersListener } from '../../libs/nestjs-locked/src/redis/connection/lock-servers.js';
import { RedisHandshake } from '../../libs/nestjs-locked/src/redis/connection/proof/redis-handshake.js';
import { openRedis } from '../../libs/nestjs-locked/src/redis/connection/server/open-redis.js';
import type { RedisCluster } from '../../libs/nestjs-locked/src/redis/connection/server/redis-cluster.js';
import { LockScripts } from '../../libs/nestjs-locked/src/redis/scripts/lock-scripts.js';
import { RedisKeys } from '../../libs/nestjs-locked/src/redis/scripts/redis-keys.js';
import { FENCE_KEEP_MS } from '../../libs/nestjs-locked/src/redis/store-defaults.js';
import { afterTest } from '../support/after-test.js';
import { CountingClock } from '../support/counting-clock.js';
import { FakeClock } from '../support/fake-clock.js';
import { openAdmin } from '../support/open-locks.js';
import { startRedisCluster } from '../support/own-cluster.js';
import { startRedisServer } from '../support/own-redis.js';

const LEASE_MS = 30_000;
const scripts = new LockScripts({
  inCluster: true,
  inboxPrefix: 'lock:inbox:',
  acceptMs: 1_000,
  fenceKeepMs: FENCE_KEEP_MS,
});
const ignore = (): void => {};
const listener: LockServersListener = {
  ...{ message: ignore, awaited: ignore, connected: ignore, subscribed: ignore, replaced: ignore },
  ...{ lost: ignore, back: ignore, rightsLost: ignore, rightsBack: ignore },
  ...{ inboxLost: ignore, inboxFails: ignore, inboxBack: ignore },
};

async function clusterNodes(clock: Clock): Promise<ClusterNodes> {
  const cluster = await startRedisCluster({ replicasPerMaster: 0, nodeTimeoutMs: 60_000 });
  const redis = openRedis(cluster.connection);
  afterTest(() => redis.close());
  const nodes = new ClusterNodes(
    redis.client as RedisCluster,
    {
      ...{ clock, keys: new RedisKeys('lock:'), processId: 'p', leaseMs: LEASE_MS },
      ...{ scripts: scripts.all, probe: scripts.probe, timeLimitMs: 5_000, pingEveryMs: 10_000 },
    },
    listener,
  );
  afterTest(() => nodes.close());
  return nodes;
}

it('a node without slots to which a command was sent is kept for a minute after the last one', async () => {
  const clock = new FakeClock();
  const nodes = await clusterNodes(clock);
  const addresses = (): string[] => nodes.all.map(({ address }) => address).sort();

  await nodes.look();
  const masters = addresses();
  const from = nodes.all[0]!;
  const guest = nodes.at('127.0.0.1:1', from);
  await nodes.look();
  expect(addresses()).toEqual([guest.address, ...masters].sort());
  clock.block(59_000);
  nodes.at(guest.address, from);
  clock.block(59_000);
  await nodes.look();
  expect(nodes.all).toContain(guest);
  expect(guest.isGone).toBe(false);
  clock.block(1_000);
  await nodes.look();
  expect(addresses()).toEqual(masters);
  expect(guest.isGone).toBe(true);
});

it('no connection is opened to a node that is named after the locks were closed', async () => {
  const clock = new CountingClock();
  const nodes = await clusterNodes(clock);
  const handshake = new RedisHandshake({
    ...{ clock, server: 'the Redis Cluster', rights: () => '', usesTls: false, inCluster: true },
    ...{ limitMs: 20_000, awaited: ignore },
  });
  await nodes.open(handshake, 20_000);
  handshake.closed();
  const known = nodes.all.length;
  const from = nodes.all[0]!;
  const other = await startRedisServer();
  const admin = openAdmin(other.url);
  await admin.ping();
  nodes.close();

  const address = `127.0.0.1:${other.port}`;
  nodes.moved(7, address, from);
  expect(nodes.at(address, from)).toBe(from);
  expect(nodes.all).toHaveLength(known);
  await sleep(500);
  const clients = String(await admin.client('LIST'));
  expect(clients.match(/^id=/gm)).toHaveLength(1);
  expect(clock.timers).toBe(0);
});
