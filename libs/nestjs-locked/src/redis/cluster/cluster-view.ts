import type { Clock } from '../../core/time/clock.js';
import { CLOSED, reasonOf } from '../connection/server/reason-of.js';
import type { RedisClient } from '../connection/server/redis-client.js';
import type { RedisCluster } from '../connection/server/redis-cluster.js';
import { withinLimit } from '../connection/silence/time-limit.js';
import { HeardRefusal } from '../connection/traffic/heard-refusal.js';
import { hostAndPort } from './cluster-address.js';
import { type ClusterView, viewFrom } from './origin-view.js';

/** How long one node may take to answer before the next one is asked. */
const NODE_LIMIT_MS = 1_000;

/** How long the connection to a silent node may take to close gracefully. */
const DISCONNECT_MS = 500;

/**
 * Asks the cluster for the owners of all slots, through a temporary duplicate of the user's client, so that ioredis
 * handles addresses, hostnames and their mapping. ioredis skips nodes that do not report their host; for these, the
 * answering node is asked again.
 *
 * @param from addresses to ask; if empty, those of the client
 * @param signal cancels the refresh, which would keep the process alive while it asks silent nodes
 * @throws the error of the node asked last, or the reason of `signal`
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
    enableReadyCheck: false, // an incomplete cluster can be viewed too
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
  eyes.on('error', () => {}); // it reports only that all nodes have failed
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
      // The node has not joined the cluster yet, or has left it.
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
 * Observes the errors of the duplicate client on which ioredis asks a node, and of which it reports only that the
 * connection is closed.
 */
function watchConnections(node: RedisClient, onError: (error: Error) => void): void {
  const duplicate = node.duplicate.bind(node);
  node.duplicate = (override) => {
    const connection = duplicate(override);
    const heard = new HeardRefusal(connection);
    connection.on('error', onError);
    connection.on('close', () => {
      const refusal = heard.take();
      if (refusal !== undefined) onError(refusal);
    });
    return connection;
  };
}

function addressOf({ options: { host, port } }: RedisClient): string {
  return `${host}:${port}`;
}
