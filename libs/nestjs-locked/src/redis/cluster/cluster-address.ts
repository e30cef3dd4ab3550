import type { Address, RedisCluster } from '../connection/redis-cluster.js';
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
