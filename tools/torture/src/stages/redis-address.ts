import { Cluster, Redis } from 'ioredis';

interface HostAndPort {
  readonly host: string;
  readonly port: number;
}

/**
 * Where a worker finds Redis: by a URL, by sentinels that know the master by a name, or in a cluster. It is told to
 * another process, so it consists of data, and has the form of the module's option `connection`.
 */
export type RedisAddress = ServerAddress | QuorumAddress;

/** Of one server, or of servers that act as one. */
type ServerAddress =
  | string
  | { readonly sentinels: HostAndPort[]; readonly name: string }
  | { readonly cluster: HostAndPort[] };

/** Of independent servers. */
export interface QuorumAddress {
  readonly quorum: readonly string[];
  readonly rejoinAfterMs: number;
}

export function isQuorum(address: RedisAddress): address is QuorumAddress {
  return typeof address === 'object' && 'quorum' in address;
}

/** Clients of our own: one of each server that is independent of the others. */
export function openClients(address: RedisAddress): (Redis | Cluster)[] {
  return isQuorum(address) ? address.quorum.map((url) => openClient(url)) : [openClient(address)];
}

/** A client of our own. It waits for as long as the server is away. */
export function openClient(address: string): Redis;
export function openClient(address: ServerAddress): Redis | Cluster;
export function openClient(address: ServerAddress): Redis | Cluster {
  const client = newClient(address);
  client.on('error', () => {}); // servers are taken away on purpose
  return client;
}

function newClient(address: ServerAddress): Redis | Cluster {
  const retryStrategy = (): number => 100;
  const waiting = { maxRetriesPerRequest: null, retryStrategy };
  if (typeof address === 'string') return new Redis(address, waiting);
  if ('cluster' in address) {
    const redisOptions = { maxRetriesPerRequest: null };
    return new Cluster(address.cluster, { clusterRetryStrategy: retryStrategy, redisOptions });
  }
  // Without ioredis' own `failoverDetector`: where a sentinel is away, it keeps the process for two seconds.
  return new Redis({ ...waiting, ...address, sentinelRetryStrategy: retryStrategy });
}
