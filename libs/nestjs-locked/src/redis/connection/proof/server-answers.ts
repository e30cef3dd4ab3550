import { isReplyError, lacksRights, refusesUser } from '../../scripts/reply-error.js';
import type { RedisConnection } from '../server/redis-client.js';
import { readRunId } from '../server/server-info.js';

/** What a server reports about itself and our inbox; undefined if not reported. */
export interface ServerAnswers {
  readonly runId: string | undefined;
  /** The expected channel of our inbox on this server. */
  readonly channel: string | undefined;
  /** How many connections listen to the channel of our inbox. */
  readonly listeners: number | undefined;
  /** Whether the server refuses to report the listeners. */
  readonly refusesCount: boolean;
  /** Whether the server does not know our user, who could log in before. */
  readonly refusesUser: boolean;
}

/**
 * Asks the server in one round trip.
 *
 * @param channelOn returns the expected channel of our inbox on a server
 * @param listened the present channel of the inbox; undefined if it is not connected
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

/** Turns an error reply into an ordinary one, without the requested information. */
function orRefusal(error: unknown): unknown {
  if (isReplyError(error)) return error;
  throw error;
}

function listenersIn(answer: unknown): number | undefined {
  const count: unknown = Array.isArray(answer) ? answer[1] : undefined;
  return count === undefined ? undefined : Number(count);
}
