import type { RedisConnection } from '../server/redis-client.js';
import type { RequiredReplicas } from '../server/required-replicas.js';
import type { RedisCommand } from './redis-command.js';

/**
 * The longest WAIT, in milliseconds: it delays everything after it on its connection, including releases, and connected
 * replicas acknowledge within a round trip.
 */
const LONGEST_WAIT_MS = 500;

/**
 * How long WAIT may take: a third of the time limit of a command, because a command after it must still be answered in
 * time, or the server would count as silent. Redis also checks only every 100 ms for expired WAITs.
 */
export function longestWaitMs({ aof }: RequiredReplicas, timeLimitMs: number): number {
  // Replicas write to disk once a second by default (`appendfsync everysec`), which may take all of the third.
  const longest = aof ? Infinity : LONGEST_WAIT_MS;
  return Math.max(1, Math.min(longest, Math.floor(timeLimitMs / 3)));
}

/** Asks the server how many replicas have the earlier writes of the same connection. */
export function waitCommand(required: RequiredReplicas, limitMs: number): RedisCommand {
  const { replicas, aof } = required;
  return {
    action: 'wait for replicas',
    keys: [],
    // On another connection it would cover nothing, and be answered at once.
    isRepeatable: false,
    send: (redis: RedisConnection) =>
      aof ? redis.call('WAITAOF', 0, replicas, limitMs) : redis.call('WAIT', replicas, limitMs),
  };
}

/** @param reply of WAIT: a number; of WAITAOF: whether the master has it on disk, and how many replicas have */
export function acknowledgedBy(reply: unknown): number {
  return Number(Array.isArray(reply) ? reply[1] : reply);
}
