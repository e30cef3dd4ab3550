import type { Clock } from '../../core/time/clock.js';
import type { RedisClient } from '../connection/server/redis-client.js';
import type { RedisCluster } from '../connection/server/redis-cluster.js';
import { withinLimit } from '../connection/silence/time-limit.js';
import { clientAt, reachableAddress } from './cluster-address.js';

/** Who serves what, as one node of the cluster sees it. Addresses are `host:port`, as we reach them. */
export interface ClusterView {
  /** A client for each master that has slots; never connected, its options say how to reach the master. */
  readonly masters: ReadonlyMap<string, RedisClient>;
  /** The master of each slot. */
  readonly slots: readonly (string | undefined)[];
}

/** How CLUSTER SLOTS names a node: host, port, id, and other names of the host. */
type NamedNode = readonly [
  host: string | null,
  port: number,
  id: string,
  others?: readonly string[] | Readonly<Record<string, string>>,
];

type SlotRange = readonly [first: number, last: number, master: NamedNode, ...rest: unknown[]];

/**
 * Who serves what, if nodes do not say at which host they are. Redis means the host at which we reach the node that we
 * ask: a node alone in its cluster does not know its own address, and others are told to keep theirs to themselves.
 *
 * @param origins nodes to ask, until one answers
 * @throws the error of the node that was asked last
 */
export async function viewFrom(
  origins: readonly RedisClient[],
  cluster: RedisCluster,
  clock: Clock,
  nodeLimitMs: number,
): Promise<ClusterView> {
  let reason: unknown = new Error('no node was asked');
  for (const origin of origins) {
    const redis = origin.duplicate({
      lazyConnect: false,
      enableOfflineQueue: true,
      enableReadyCheck: false,
      retryStrategy: () => null,
      protocol: 2,
    });
    redis.on('error', () => {}); // the commands fail then, too
    try {
      const answers = Promise.all([redis.cluster('MYID'), redis.cluster('SLOTS')]);
      const ask = async (): Promise<unknown[]> => answers;
      const [self, ranges] = await withinLimit(clock, nodeLimitMs, 'ask for the slots', ask);
      return readSlots(ranges as readonly SlotRange[], String(self), origin, cluster);
    } catch (error) {
      reason = error;
    } finally {
      redis.disconnect();
    }
  }
  throw reason;
}

function readSlots(
  ranges: readonly SlotRange[],
  self: string,
  origin: RedisClient,
  cluster: RedisCluster,
): ClusterView {
  const { host = '', port } = origin.options;
  const addressOf = ([named, itsPort, id, others]: NamedNode): string => {
    const itsHost = named === '?' ? ipAmong(others) : named;
    if (itsHost) return reachableAddress(cluster, `${itsHost}:${itsPort}`);
    return id === self ? `${host}:${port}` : `${host}:${itsPort}`;
  };
  const masters = new Map<string, RedisClient>();
  const slots: string[] = [];
  for (const [first, last, master] of ranges) {
    const address = addressOf(master);
    masters.set(address, clientAt(origin, address));
    for (let slot = first; slot <= last; slot++) slots[slot] = address;
  }
  return { masters, slots };
}

/** A node that should be called by its name, but has none, is still known by its address. */
function ipAmong(others: NamedNode[3]): string | undefined {
  const list: readonly unknown[] = Array.isArray(others)
    ? others
    : Object.entries(others ?? {}).flat();
  const at = list.indexOf('ip');
  return at === -1 ? undefined : String(list[at + 1]);
}
