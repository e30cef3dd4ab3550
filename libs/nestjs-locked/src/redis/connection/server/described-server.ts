import type { RedisClient } from './redis-client.js';
import { type RedisCluster, startupNodesOf } from './redis-cluster.js';

/** The nodes from which a cluster is discovered, for messages, never with a password. */
export function describedCluster(client: RedisCluster): string {
  const nodes = startupNodesOf(client).map((node) => {
    if (typeof node !== 'object' || node === null) return String(node).replace(/.*@/s, '');
    const { host = 'localhost', port = 6_379 } = node as { host?: string; port?: number };
    return `${host}:${port}`;
  });
  return nodes.length === 0 ? 'the Redis Cluster' : `the Redis Cluster of ${nodes.join(', ')}`;
}

/** The server of a client's connections, for messages, never with a password. */
export function describedServer({ options }: RedisClient): string {
  const { username, db = 0, sentinels, name, path, host, port, tls } = options;
  const user = username ? `${username}@` : '';
  const database = db === 0 ? '' : `/${db}`;
  if (sentinels && sentinels.length > 0) {
    const addresses = sentinels.map(({ host = '?', port = 26_379 }) => `${host}:${port}`);
    return `master '${name ?? '?'}' of the sentinels ${addresses.join(', ')}${database}`;
  }
  if (path) return `${user}${path}${database}`;
  const scheme = tls ? 'rediss' : 'redis';
  return `${scheme}://${user}${host ?? 'localhost'}:${port ?? 6_379}${database}`;
}
