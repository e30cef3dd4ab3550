import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { RedisServer } from './redis-server.js';

/** Every redis-server can be run as a sentinel. */
export type RedisSentinel = RedisServer;

export interface RedisSentinelOptions {
  /** The name of the master, by which clients ask for it. */
  readonly name: string;
  readonly masterPort: number;
  /** How many sentinels must agree that the master is down. */
  readonly quorum: number;
  /** A server that has not answered for this long is considered down. */
  readonly downAfterMs: number;
}

/**
 * A sentinel on 127.0.0.1. It keeps what it finds out in its configuration, and so over a restart.
 *
 * @throws Error if there is no redis-server, or it does not start
 */
export function startSentinel({
  name,
  masterPort,
  quorum,
  downAfterMs,
}: RedisSentinelOptions): Promise<RedisSentinel> {
  return RedisServer.launch({
    args(port, folder) {
      const file = join(folder, `sentinel-${port}.conf`);
      const lines = [
        `port ${port}`,
        'bind 127.0.0.1',
        `dir ${folder}`,
        `sentinel monitor ${name} 127.0.0.1 ${masterPort} ${quorum}`,
        `sentinel down-after-milliseconds ${name} ${downAfterMs}`,
        `sentinel failover-timeout ${name} 10000`,
      ];
      writeFileSync(file, `${lines.join('\n')}\n`);
      return [file, '--sentinel'];
    },
    keeps: () => true,
  });
}
