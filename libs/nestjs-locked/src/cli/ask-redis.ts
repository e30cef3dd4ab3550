import type { LockStoreError } from '../core/lock.errors.js';
import { systemClock } from '../core/time/clock.js';
import type { RedisConnection } from '../redis/connection/server/redis-client.js';
import { withinLimit } from '../redis/connection/silence/time-limit.js';
import type { CommandOutcome, RedisCommand } from '../redis/connection/traffic/redis-command.js';
import { isUnknownScript } from '../redis/scripts/reply-error.js';

/** How long Redis may take to let us in, and to answer a command. */
export const LIMIT_MS = 5_000;

/** Sends a command once. @returns what `read` makes of the outcome */
export async function askRedis<T>(
  redis: RedisConnection,
  command: RedisCommand,
  read: (outcome: CommandOutcome) => T,
): Promise<T> {
  const send = async (): Promise<unknown> => {
    try {
      return await command.send(redis, false);
    } catch (error) {
      if (!isUnknownScript(error)) throw error;
      return await command.send(redis, true);
    }
  };
  try {
    const reply = await withinLimit(systemClock, LIMIT_MS, command.action, send);
    return read({ kind: 'answered', reply, mayHaveRunBefore: false });
  } catch (cause) {
    return read({ kind: 'failed', cause: cause as LockStoreError, neverRan: false });
  }
}
