import { NamedMaster } from './named-master.js';
import { sentinelConnectorOf } from './sentinel-connector.js';

/** Where a sentinel says that another server is the master now. */
const FAILOVERS = '+switch-master';

/**
 * Takes care of the connections on which ioredis listens to the sentinels. It gives nobody else the chance to, and a
 * sentinel that is away would be a nuisance in two ways. Each attempt to reach it would be printed, because nobody
 * listens for errors. And a subscription that is repeated when the sentinel is back, and broken again at once, would be
 * a rejection without a handler, which ends the process; so it is repeated here instead. If a version of ioredis keeps
 * these connections elsewhere, it does as it always did.
 *
 * Once it is listened to, the sentinel that has named the master is asked again, and so is each that was away in
 * between: it may have told of a failover while we did not listen. Not all of them at first: one that differs from the
 * others would break the connection for nothing.
 * @param connection has not begun to connect yet
 * @param onMoved the connection was made to a server that is not the master any more
 */
export function attendToSentinels(
  connection: { on(event: 'connect', listener: () => void): unknown },
  onMoved: () => void,
): void {
  const connector = sentinelConnectorOf(connection);
  if (connector === undefined) return;
  const master = new NamedMaster(connector);
  connection.on('connect', () => {
    for (const { address, client } of connector.failoverDetector?.sentinels ?? []) {
      if (client === undefined) continue;
      client.on('error', () => {});
      client.options.autoResubscribe = false;
      let isAsked = address !== undefined && master.isFrom(address);
      const listen = async (): Promise<void> => {
        const asks = isAsked;
        isAsked = true;
        await client.subscribe(FAILOVERS);
        if (!asks || address === undefined) return;
        if (await master.isReplaced(address)) onMoved();
      };
      client.on('ready', () => void listen().catch(() => {}));
    }
  });
}

/**
 * How long to wait before the next attempt to listen to a sentinel again, in milliseconds. ioredis would wait for a
 * minute, and after a restart of all sentinels, nobody would tell us of a failover until then.
 */
export function sentinelDelay(times: number): number {
  return Math.min(50 * 2 ** Math.min(times, 7), 5_000);
}
