import type { Clock } from '../../core/time/clock.js';
import { CLOSED, reasonOf } from '../connection/server/reason-of.js';
import type { RedisClient } from '../connection/server/redis-client.js';
import type { RedisCluster } from '../connection/server/redis-cluster.js';
import { withinLimit } from '../connection/silence/time-limit.js';
import { hostAndPort } from './cluster-address.js';
import { type ClusterView, viewFrom } from './origin-view.js';

/** How long one node may take to say what it knows, before the next one is asked. */
const NODE_LIMIT_MS = 1_000;

/** How long the connection to a node that is silent may take to close in good order. */
const DISCONNECT_MS = 500;

/**
 * Asks the cluster who serves what, through a duplicate of the user's client that is closed again: so the addresses,
 * their names and their translation are ioredis' affair. It passes over nodes that do not say at which host they are;
 * for these, the node that was asked is asked once more.
 *
 * @param from addresses to ask; if there are none, those that the client was made with
 * @param signal nobody wants to know any more; without it, a look at nodes that are silent would keep the process alive
 * @throws the error of the node that was asked last, or the reason of `signal`
 */
export async function lookAtCluster(
  client: RedisCluster,
  from: readonly string[],
  clock: Clock,
  limitMs: number,
  signal: AbortSignal,
): Promise<ClusterView> {
  signal.throwIfAborted();
  const eyes = client.duplicate(from.map(hostAndPort), {
    lazyConnect: true,
    enableReadyCheck: false, // a cluster that lacks a master is worth looking at, too
    enableOfflineQueue: false,
    enableAutoPipelining: false,
    clusterRetryStrategy: () => null,
    slotsRefreshTimeout: NODE_LIMIT_MS,
    slotsRefreshInterval: undefined,
    shardedSubscribers: false,
    scripts: undefined,
    himportFieldsets: undefined,
    redisOptions: { ...client.options.redisOptions, disconnectTimeout: DISCONNECT_MS },
  });
  let reason: unknown;
  const asked: RedisClient[] = [];
  const broken = new Map<string, Error>();
  const end = (): void => eyes.disconnect();
  signal.addEventListener('abort', end);
  eyes.on('error', () => {}); // it says only that all nodes have failed
  eyes.on('node error', (told, address) => {
    const cause = told.message === CLOSED ? (broken.get(address) ?? told) : told;
    reason = new Error(`${address}: ${reasonOf(cause)}`, { cause });
  });
  eyes.on('+node', (node) => {
    asked.push(node);
    watchConnections(node, (error) => broken.set(addressOf(node), error));
  });
  try {
    await withinLimit(clock, limitMs, 'find the masters of the cluster', () => eyes.connect());
    const masters = new Map(eyes.nodes('master').map((node) => [addressOf(node), node] as const));
    const isNamed = ([master]: readonly string[]): boolean =>
      master !== undefined && masters.has(master) && !master.startsWith('?:');
    if (!eyes.slots.every(isNamed)) {
      const view = withinLimit(clock, limitMs, 'find the masters of the cluster', () =>
        viewFrom(asked, client, clock, NODE_LIMIT_MS),
      );
      return await view;
    }
    if (masters.size === 0) {
      // It has not joined the cluster yet, or has left it.
      reason = new Error('the node that was asked knows no master with slots');
      throw reason;
    }
    return { masters, slots: eyes.slots.map(([master]) => master) };
  } catch (error) {
    throw reason ?? error;
  } finally {
    signal.removeEventListener('abort', end);
    eyes.disconnect();
  }
}

/**
 * ioredis asks a node on a duplicate of its client, and does not listen to that one's errors. All that it tells is that
 * the connection is closed.
 */
function watchConnections(node: RedisClient, onError: (error: Error) => void): void {
  const duplicate = node.duplicate.bind(node);
  node.duplicate = (override) => {
    const connection = duplicate(override);
    connection.on('error', onError);
    return connection;
  };
}

function addressOf({ options: { host, port } }: RedisClient): string {
  return `${host}:${port}`;
}
