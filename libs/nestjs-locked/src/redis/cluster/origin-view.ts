import type { Clock } from '../../core/time/clock.js';
import type { RedisClient } from '../connection/server/redis-client.js';
import type { RedisCluster } from '../connection/server/redis-cluster.js';
import { withinLimit } from '../connection/silence/time-limit.js';
import { clientAt, reachableAddress } from './cluster-address.js';

/** The owners of all slots, as one node of the cluster sees them. Addresses are reachable ones, `host:port`. */
export interface ClusterView {
  /** A client for each master with slots; never connected, it only has the options for reaching the master. */
  readonly masters: ReadonlyMap<string, RedisClient>;
  /** The master of each slot. */
  readonly slots: readonly (string | undefined)[];
}

/** A node in CLUSTER SLOTS: host, port, id, and other names of the host. */
type NamedNode = readonly [
  host: string | null,
  port: number,
  id: string,
  others?: readonly string[] | Readonly<Record<string, string>>,
];

type SlotRange = readonly [first: number, last: number, master: NamedNode, ...rest: unknown[]];

/**
 * Reads the owners of all slots if nodes do not report their host. Redis then means the host at which we reach the node
 * that we ask: a node alone in its cluster does not know its own address, and others are configured not to reveal
 * theirs.
 *
 * @param origins nodes to ask, until one answers
 * @throws the error of the node asked last
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
    redis.on('error', () => {}); // the commands fail too
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

/** The IP address of a node that should report a hostname but has none. */
function ipAmong(others: NamedNode[3]): string | undefined {
  const list: readonly unknown[] = Array.isArray(others)
    ? others
    : Object.entries(others ?? {}).flat();
  const at = list.indexOf('ip');
  return at === -1 ? undefined : String(list[at + 1]);
}
