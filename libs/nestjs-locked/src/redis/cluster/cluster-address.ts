import type { RedisClient } from '../connection/server/redis-client.js';
import type { Address, RedisCluster } from '../connection/server/redis-cluster.js';
import { hashSlot } from './hash-slot.js';

/** @param redisKey without the prefix that the connection puts before it */
export function slotIn({ options }: RedisCluster, redisKey: string): number {
  return hashSlot((options.keyPrefix ?? '') + redisKey);
}

/** The address at which we reach a node that calls itself by this one: `host:port`. */
export function reachableAddress({ options: { natMap } }: RedisCluster, address: string): string {
  const mapped = typeof natMap === 'function' ? natMap(address) : natMap?.[address];
  return mapped ? `${mapped.host}:${mapped.port}` : address;
}

export function hostAndPort(address: string): Address {
  const colon = address.lastIndexOf(':');
  return { host: address.slice(0, colon), port: Number(address.slice(colon + 1)) };
}

/**
 * The address that a node has named. It names no host if it does not know one, or is told to keep it to itself: then it
 * means the host that we have reached it at. It says `?` if it should name a host by a name that there is not.
 * @param from the address of the node that has named it
 * @param known addresses of nodes that we know
 */
export function namedAddress(named: string, from: string, known: readonly string[]): string {
  const port = /^\??(:\d+)$/.exec(named)?.[1];
  if (port === undefined) return named;
  const same = named.startsWith('?') ? known.find((address) => address.endsWith(port)) : undefined;
  return same ?? hostAndPort(from).host + port;
}

/** A client like another one, for another address. */
export function clientAt(like: RedisClient, address: string): RedisClient {
  const there = hostAndPort(address);
  return {
    options: { ...like.options, ...there },
    duplicate: (override) => like.duplicate({ ...there, ...override }),
  };
}
