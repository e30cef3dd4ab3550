import type { SurveyedLock } from '../core/store/lock-inspector.js';
import type { RedisConnection } from './connection/server/redis-client.js';
import type { RedisKeys } from './scripts/redis-keys.js';
import { isReplyError } from './scripts/reply-error.js';

/** What is known of each lock by its key: its value, or its queue. */
export type Looks = [key: string, part: Partial<SurveyedLock>][];

/**
 * Reads locks and the heads of queues, in commands that are written together. They may have any slots.
 * @param names of these, and of others, which are left out @returns nothing for what is gone meanwhile
 */
export async function lookAtLocks(
  redis: RedisConnection,
  keys: RedisKeys,
  names: readonly string[],
): Promise<Looks> {
  let time: Promise<number> | undefined;
  const looks = names.map(async (name): Promise<Looks> => {
    const locked = keys.keyOf(name);
    if (locked !== undefined) return lookAtLock(redis, name, locked);
    const queued = keys.keyOfQueue(name);
    if (queued === undefined) return [];
    time ??= microsOf(redis);
    return lookAtQueue(redis, name, queued, time);
  });
  return (await Promise.all(looks)).flat();
}

async function lookAtLock(redis: RedisConnection, name: string, key: string): Promise<Looks> {
  const value = await redis.get(name).catch(ifRefused(''));
  return value === null ? [] : [[key, { value }]];
}

async function lookAtQueue(
  redis: RedisConnection,
  name: string,
  key: string,
  time: Promise<number>,
): Promise<Looks> {
  const [now, waiters, head] = await Promise.all([
    time,
    redis.call('ZCARD', name).catch(ifRefused(0)).then(Number),
    redis.call('ZRANGE', name, 0, 0, 'WITHSCORES').catch(ifRefused([])),
  ]);
  const [, arrival = Infinity] = (head as string[] | [string[]]).flat(); // in pairs, with RESP3
  const waitedMs = Math.max(0, now - Number(arrival)) / 1_000;
  return waiters === 0 ? [] : [[key, { waiters, waitedMs }]];
}

/** The clock of the server, by which waiters have their places. */
async function microsOf(redis: RedisConnection): Promise<number> {
  const [seconds, micros] = (await redis.call('TIME')) as [string, string];
  return Number(seconds) * 1_000_000 + Number(micros);
}

/** For a key of another client, which has another type, or that has moved to another server meanwhile. */
function ifRefused<T>(instead: T): (error: unknown) => T {
  return (error) => {
    if (isReplyError(error)) return instead;
    throw error;
  };
}
