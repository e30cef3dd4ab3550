import { Cluster, Redis } from 'ioredis';

interface HostAndPort {
  readonly host: string;
  readonly port: number;
}

/** Where a worker finds Redis. It is told to another process, so it consists of data. */
export type RedisAddress =
  | { readonly kind: 'url'; readonly url: string }
  | {
      readonly kind: 'sentinels';
      readonly sentinels: readonly HostAndPort[];
      /** By which the sentinels know the master. */
      readonly name: string;
    }
  | { readonly kind: 'cluster'; readonly nodes: readonly HostAndPort[] };

/** A client of this process. It waits for as long as the server is away. */
export function openClient(address: RedisAddress): Redis | Cluster {
  const client = newClient(address);
  client.on('error', () => {}); // servers are taken away on purpose
  return client;
}

function newClient(address: RedisAddress): Redis | Cluster {
  const waiting = { maxRetriesPerRequest: null, retryStrategy: () => 100 };
  switch (address.kind) {
    case 'url':
      return new Redis(address.url, waiting);
    case 'sentinels': {
      const { sentinels, name } = address;
      // Without ioredis' own `failoverDetector`: where a sentinel is away, it keeps the process for two seconds.
      return new Redis({
        ...waiting,
        sentinels: [...sentinels],
        name,
        sentinelRetryStrategy: () => 100,
      });
    }
    case 'cluster':
      return new Cluster([...address.nodes], {
        clusterRetryStrategy: () => 100,
        redisOptions: { maxRetriesPerRequest: null },
      });
  }
}
