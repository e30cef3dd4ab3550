/** The connections on which ioredis listens to the sentinels, as it keeps them in its private fields. */
interface ListeningToSentinels {
  on(event: 'connect', listener: () => void): unknown;
  readonly connector?: {
    readonly failoverDetector?: {
      readonly sentinels?: readonly { readonly client?: SentinelClient }[];
    } | null;
  };
}

interface SentinelClient {
  on(event: 'error', listener: () => void): unknown;
}

/**
 * Listens for errors of the connections on which ioredis listens to the sentinels. ioredis prints an error that nobody
 * listens for, and gives nobody the chance to listen on these. A sentinel that is away would fill the log with each
 * attempt to reach it, although the locks do well without it. If a version of ioredis keeps these connections
 * elsewhere, their errors are printed, and nothing else happens.
 */
export function hearErrorsOfSentinels(connection: object): void {
  const redis = connection as ListeningToSentinels;
  redis.on('connect', () => {
    for (const { client } of redis.connector?.failoverDetector?.sentinels ?? [])
      client?.on('error', () => {});
  });
}

/**
 * How long to wait before the next attempt to listen to a sentinel again, in milliseconds. ioredis would wait for a
 * minute: after a restart of all sentinels, nobody would tell us of a failover for so long.
 */
export function sentinelDelay(times: number): number {
  return Math.min(50 * 2 ** Math.min(times, 7), 5_000);
}
