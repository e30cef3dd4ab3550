import { Cluster, type Redis } from 'ioredis';
import { EventEmitter } from 'node:events';
import { WARM_KEYS } from '../keys.js';
import { isQuorum, openClients, type RedisAddress } from '../stages/redis-address.js';
import { type BreakOfVotes, BREAKS_OF_VOTES, isOfVotes } from './false-votes.js';

interface Sabotage {
  /** Undefined means once. */
  readonly everyMs?: number;
  /** @param hasFenceOfEach whether each key has a fence of its own */
  readonly act: (redis: Redis | Cluster, hasFenceOfEach: boolean) => unknown;
}

/** What a worker does wrong on purpose, to check the checker, which must notice each of these. */
const SABOTAGE = {
  /** A release that does not ask whose lock it is. */
  release: {
    everyMs: 20,
    act: (redis) => Promise.all(['a', ...WARM_KEYS].map((key) => redis.del(`lock:{${key}}`))),
  },
  /** Fencing tokens that fall: the stored number is an hour ahead, and then gone. */
  token: {
    everyMs: 300,
    act: async (redis, hasFenceOfEach) => {
      const fence = hasFenceOfEach ? 'lock:{c}:fence' : 'lock:fence';
      await redis.set(fence, (Date.now() + 3_600_000) * 1_000);
      setTimeout(() => void redis.del(fence).catch(() => {}), 150).unref();
    },
  },
  /** A key that nobody can acquire although nobody holds it. */
  keep: { act: (redis) => redis.set('lock:{b}', 'by nobody', 'PX', 9_000) },
  /** A rejection that nobody handles. */
  crash: { act: () => void Promise.reject(new Error('on purpose')) },
  /** More listeners on one emitter than Node considers right. */
  warning: {
    act: () => {
      const emitter = new EventEmitter();
      for (let n = 0; n < 11; n++) emitter.on('event', () => {});
    },
  },
  /** A timer that keeps the process alive. */
  exit: { act: () => void setInterval(() => {}, 1_000) },
} satisfies Record<string, Sabotage>;

export type Break = keyof typeof SABOTAGE | BreakOfVotes;

export const BREAKS = [...Object.keys(SABOTAGE), ...BREAKS_OF_VOTES] as Break[];

const FIRST_MS = 500;

/** @returns a function that ends it */
export function sabotage(breaks: readonly Break[], address: RedisAddress): () => void {
  if (breaks.length === 0) return () => {};
  const servers = openClients(address);
  const hasFenceOfEach = isQuorum(address) || servers[0] instanceof Cluster;
  const ofServers = breaks.flatMap((name) => (isOfVotes(name) ? [] : name));
  const timers = ofServers.map((name) => {
    const { everyMs, act }: Sabotage = SABOTAGE[name];
    const again = (): void => {
      for (const redis of servers) void act(redis, hasFenceOfEach);
    };
    return everyMs === undefined ? setTimeout(again, FIRST_MS) : setInterval(again, everyMs);
  });
  return () => {
    for (const timer of timers) clearInterval(timer);
    for (const redis of servers) redis.disconnect();
  };
}
