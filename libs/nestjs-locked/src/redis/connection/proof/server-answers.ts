import { isReplyError, lacksRights, refusesUser } from '../../scripts/reply-error.js';
import type { RedisConnection } from '../server/redis-client.js';
import { readRunId } from '../server/server-info.js';

/** What a server says of itself and of our inbox; undefined where it says nothing of the kind. */
export interface ServerAnswers {
  readonly runId: string | undefined;
  /** The channel that our inbox should have on this server. */
  readonly channel: string | undefined;
  /** How many connections listen to the channel that our inbox has. */
  readonly listeners: number | undefined;
  /** It does not let us ask that. */
  readonly refusesCount: boolean;
  /** It does not know our user, who could log in before. */
  readonly refusesUser: boolean;
}

/**
 * Asks in one round trip.
 *
 * @param channelOn the channel that our inbox should have on a server
 * @param listened the channel that it has; undefined if it is not connected
 */
export async function askServer(
  redis: RedisConnection,
  channelOn: (redis: RedisConnection) => Promise<string>,
  listened: string | undefined,
): Promise<ServerAnswers> {
  const [info, channel, counted] = await Promise.all([
    redis.info('server').catch(orRefusal),
    channelOn(redis).catch(orRefusal),
    listened === undefined ? undefined : redis.call('PUBSUB', 'NUMSUB', listened).catch(orRefusal),
  ]);
  return {
    runId: typeof info === 'string' ? readRunId(info) : undefined,
    channel: typeof channel === 'string' ? channel : undefined,
    listeners: listenersIn(counted),
    refusesCount: lacksRights(counted),
    refusesUser: [info, channel, counted].some((answer) => refusesUser(answer)),
  };
}

/** A reply that is an error is read like any other: it does not say what we requested. */
function orRefusal(error: unknown): unknown {
  if (isReplyError(error)) return error;
  throw error;
}

function listenersIn(answer: unknown): number | undefined {
  const count: unknown = Array.isArray(answer) ? answer[1] : undefined;
  return count === undefined ? undefined : Number(count);
}
