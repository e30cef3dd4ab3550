import { NamedMaster } from './named-master.js';
import { sentinelConnectorOf } from './sentinel-connector.js';

/** The channel on which a sentinel announces a new master. */
const FAILOVERS = '+switch-master';

/**
 * Handles the connections on which ioredis listens to the sentinels, and which it does not expose. Without this, a
 * sentinel that is away has two effects: each attempt to reach it is printed, because there is no error listener; and a
 * subscription repeated when the sentinel is back, but broken again at once, is an unhandled rejection, which ends the
 * process. So subscriptions are repeated here instead. If a version of ioredis stores these connections elsewhere, its
 * behaviour is unchanged.
 *
 * When listening begins, the sentinel that named the master is asked again, and later each one that was away, because
 * it may have announced a failover meanwhile. Not all are asked at first: one that disagrees with the others would
 * break the connection needlessly.
 * @param connection not connecting yet
 * @param onMoved called if the connection was made to a server that is no longer the master
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
 * The pause before the next attempt to listen to a sentinel, in milliseconds. ioredis would wait for a minute, in which
 * failovers after a restart of all sentinels would be missed.
 */
export function sentinelDelay(times: number): number {
  return Math.min(50 * 2 ** Math.min(times, 7), 5_000);
}
