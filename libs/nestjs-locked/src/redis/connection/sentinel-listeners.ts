/** The connections on which ioredis listens to the sentinels, as it keeps them in its private fields. */
interface ListeningToSentinels {
  on(event: 'connect', listener: () => void): unknown;
  readonly connector?: {
    /** Makes a connection to ask a sentinel where the master is, or to listen to it. */
    connectToSentinel?(endpoint: object, options?: object): SentinelClient;
    readonly failoverDetector?: {
      readonly sentinels?: readonly { readonly client?: SentinelClient }[];
    } | null;
  };
}

interface SentinelClient {
  readonly options: { autoResubscribe?: boolean | undefined };
  on(event: 'ready', listener: () => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  subscribe(channel: string): Promise<unknown>;
}

/** Where a sentinel says that another server is the master now. */
const FAILOVERS = '+switch-master';

/**
 * Takes care of the connections on which ioredis listens to the sentinels. It gives nobody else the chance to, and a
 * sentinel that is away would be a nuisance in two ways. Each attempt to reach it would be printed, because nobody
 * listens for errors. And a subscription that is repeated when the sentinel is back, and broken again at once, would be
 * a rejection without a handler, which ends the process; so it is repeated here instead. If a version of ioredis keeps
 * these connections elsewhere, it does as it always did.
 */
export function attendToSentinels(connection: object): void {
  const redis = connection as ListeningToSentinels;
  redis.on('connect', () => {
    for (const { client } of redis.connector?.failoverDetector?.sentinels ?? []) {
      if (client === undefined) continue;
      client.on('error', () => {});
      client.options.autoResubscribe = false;
      client.on('ready', () => void client.subscribe(FAILOVERS).catch(() => {}));
    }
  });
}

/**
 * Tells what breaks the connections on which ioredis asks the sentinels for the master. All that ioredis tells of them
 * is that they are closed.
 */
export function watchSentinels(connection: object, onError: (error: Error) => void): void {
  const { connector } = connection as ListeningToSentinels;
  const connect = connector?.connectToSentinel?.bind(connector);
  if (connector === undefined || connect === undefined) return;
  connector.connectToSentinel = (endpoint, options) => {
    const client = connect(endpoint, options);
    client.on('error', onError);
    return client;
  };
}

/**
 * How long to wait before the next attempt to listen to a sentinel again, in milliseconds. ioredis would wait for a
 * minute: after a restart of all sentinels, nobody would tell us of a failover for so long.
 */
export function sentinelDelay(times: number): number {
  return Math.min(50 * 2 ** Math.min(times, 7), 5_000);
}
