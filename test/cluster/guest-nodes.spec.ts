/** For how long a node is known that has no slots, because one of its slots is still on its way. */
import { expect, it } from '@jest/globals';
import { ClusterNodes } from '../../libs/nestjs-locked/src/redis/cluster/cluster-nodes.js';
import type { LockServersListener } from '../../libs/nestjs-locked/src/redis/connection/lock-servers.js';
import { openRedis } from '../../libs/nestjs-locked/src/redis/connection/open-redis.js';
import type { RedisCluster } from '../../libs/nestjs-locked/src/redis/connection/redis-cluster.js';
import { LockScripts } from '../../libs/nestjs-locked/src/redis/scripts/lock-scripts.js';
import { FENCE_KEEP_MS, RedisKeys } from '../../libs/nestjs-locked/src/redis/scripts/redis-keys.js';
import { afterTest } from '../support/after-test.js';
import { FakeClock } from '../support/fake-clock.js';
import { startRedisCluster } from '../support/own-cluster.js';

const LEASE_MS = 30_000;
const scripts = new LockScripts({
  inCluster: true,
  inboxPrefix: 'lock:inbox:',
  acceptMs: 1_000,
  fenceKeepMs: FENCE_KEEP_MS,
});
const listener = { inboxBack: () => {}, rightsBack: () => {} } as unknown as LockServersListener;

it('a node without slots to which a command was sent is kept for a minute after the last one', async () => {
  const cluster = await startRedisCluster({ replicasPerMaster: 0, nodeTimeoutMs: 60_000 });
  const redis = openRedis(cluster.connection);
  afterTest(() => redis.close());
  const clock = new FakeClock();
  const nodes = new ClusterNodes(
    redis.client as RedisCluster,
    {
      ...{ clock, keys: new RedisKeys('lock:'), processId: 'p', leaseMs: LEASE_MS },
      ...{ scripts: scripts.all, probe: scripts.probe, timeLimitMs: 5_000, pingEveryMs: 10_000 },
    },
    listener,
  );
  afterTest(() => nodes.close());
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
