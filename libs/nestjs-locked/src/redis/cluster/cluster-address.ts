import type { RedisClient } from '../connection/server/redis-client.js';
import type { Address, RedisCluster } from '../connection/server/redis-cluster.js';
import { hashSlot } from './hash-slot.js';

/** @param redisKey without the prefix that the connection adds */
export function slotIn({ options }: RedisCluster, redisKey: string): number {
  return hashSlot((options.keyPrefix ?? '') + redisKey);
}

/** The reachable address of a node with this address of its own: `host:port`. */
export function reachableAddress({ options: { natMap } }: RedisCluster, address: string): string {
  const mapped = typeof natMap === 'function' ? natMap(address) : natMap?.[address];
  return mapped ? `${mapped.host}:${mapped.port}` : address;
}

export function hostAndPort(address: string): Address {
  const colon = address.lastIndexOf(':');
  return { host: address.slice(0, colon), port: Number(address.slice(colon + 1)) };
}

/**
 * Resolves an address named by a node. It has no host if the node does not know or must not reveal one, and then means
 * the host at which we reached the node. The host is `?` if the node should report a hostname but has none.
 * @param from the address the address of the node that named it
 * @param known the addresses of known nodes
 */
export function namedAddress(named: string, from: string, known: readonly string[]): string {
  const port = /^\??(:\d+)$/.exec(named)?.[1];
  if (port === undefined) return named;
  const same = named.startsWith('?') ? known.find((address) => address.endsWith(port)) : undefined;
  return same ?? hostAndPort(from).host + port;
}

/** A client with the options of another one, for another address. */
export function clientAt(like: RedisClient, address: string): RedisClient {
  const there = hostAndPort(address);
  return {
    options: { ...like.options, ...there },
    duplicate: (override) => like.duplicate({ ...there, ...override }),
  };
}
