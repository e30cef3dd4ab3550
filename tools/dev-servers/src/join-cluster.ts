import { askRedis, orderRedis } from './ask-redis.js';
import { clusterNodes } from './cluster-node.js';
import { until } from './until.js';

const SLOTS = 16_384;

/** A master and those who are to follow it. */
export interface Shard {
  readonly masterPort: number;
  readonly replicaPorts: readonly number[];
}

/**
 * Makes one Redis Cluster of nodes that have just been started, shares the slots out among its masters, and waits until
 * all nodes see it alike and each replica has its master's data.
 */
export async function joinCluster(shards: readonly Shard[]): Promise<void> {
  const ports = shards.flatMap(({ masterPort, replicaPorts }) => [masterPort, ...replicaPorts]);
  await Promise.all(shards.map(({ masterPort }, index) => becomeMaster(masterPort, index, shards)));
  await introduce(ports);
  await Promise.all(
    shards.flatMap(({ masterPort, replicaPorts }) =>
      replicaPorts.map((port) => follow(port, masterPort)),
    ),
  );
  await until('all nodes of the cluster agree', async () => {
    const agree = await Promise.all(ports.map((port) => isSettled(port, shards)));
    return agree.every(Boolean);
  });
}

/** Epochs that differ from the beginning spare the masters the time that it takes to settle which one is higher. */
async function becomeMaster(port: number, index: number, { length }: { length: number }) {
  const first = Math.floor((SLOTS * index) / length);
  const end = Math.floor((SLOTS * (index + 1)) / length);
  const slots = Array.from({ length: end - first }, (_, offset) => String(first + offset));
  await orderRedis(port, `CLUSTER SET-CONFIG-EPOCH ${index + 1}`);
  await orderRedis(port, ['CLUSTER', 'ADDSLOTS', ...slots]);
}

/** All with each other: waiting for them to tell each other would take longer. */
async function introduce(ports: readonly number[]): Promise<void> {
  const pairs = ports.flatMap((port, index) =>
    ports.slice(index + 1).map((other) => [port, other] as const),
  );
  await Promise.all(
    pairs.map(([port, other]) => orderRedis(port, `CLUSTER MEET 127.0.0.1 ${other}`)),
  );
}

async function follow(port: number, masterPort: number): Promise<void> {
  const masterId = (await clusterNodes(masterPort)).find(({ isMyself }) => isMyself)?.id;
  await until('a replica knows its master', async () =>
    (await clusterNodes(port)).some(({ id, isMaster }) => id === masterId && isMaster),
  );
  await orderRedis(port, `CLUSTER REPLICATE ${masterId}`);
}

async function isSettled(port: number, shards: readonly Shard[]): Promise<boolean> {
  const [nodes, info, replication] = await Promise.all([
    clusterNodes(port),
    askRedis(port, 'CLUSTER INFO'),
    askRedis(port, 'INFO replication'),
  ]);
  const replicas = shards.reduce((sum, { replicaPorts }) => sum + replicaPorts.length, 0);
  return (
    nodes.length === shards.length + replicas &&
    nodes.every(({ isWell }) => isWell) &&
    nodes.filter(({ masterId }) => masterId !== undefined).length === replicas &&
    info.includes('cluster_state:ok') &&
    (/role:master/.test(replication) || /master_link_status:up/.test(replication))
  );
}
