import type { RedisServer } from 'dev-servers';
import type { Redis } from 'ioredis';
import type { SeededRandom } from 'kit';
import type { Concerned } from '../history/entry.js';
import type { LatencyProxy } from './latency-proxy.js';
import type { RedisAddress } from './redis-address.js';

/** A server and a connection to it. It may be master now and replica later, or away. */
export interface Member {
  readonly server: RedisServer;
  readonly admin: Redis;
}

/** A server that takes writes now. */
export interface Master extends Member {
  /** The keys that it has. */
  readonly keys: 'all' | readonly string[];
}

/** The Redis servers of a run, and the ways to them. */
export interface Stage {
  /** Where a worker finds Redis: some know the server itself, some only the proxy. */
  addressFor(random: SeededRandom): RedisAddress;
  /** At least one. A server that is away for a moment is among them. */
  readonly masters: readonly Master[];
  /** Of masters that do not know of each other: one of them took long to answer, and what that means is known here. */
  wasSlow?(server: RedisServer, from: number, until: number): void;
  /** What may be left in its servers, apart from what may be left everywhere. */
  readonly mayStay?: RegExp;
  stop(): Promise<void>;
}

/** A stage whose workers reach the server through a proxy, or some of them do. */
export interface ProxiedStage extends Stage {
  readonly proxy: LatencyProxy;
}

/** @throws Error if no server has the key at the moment */
export function masterOf(key: string, { masters }: Stage): Master {
  const master = masters.find(({ keys }) => keys === 'all' || keys.includes(key));
  if (master === undefined) throw new Error(`no master has ${key} now`);
  return master;
}

/** What trouble with the server that has these keys disturbs. */
export function serverOf(keys: Master['keys']): Concerned {
  return keys === 'all' ? 'all' : { serverOf: keys };
}
