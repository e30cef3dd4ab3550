import type { RedisKeys } from '../scripts/redis-keys.js';
import type { RedisClient } from './redis-client.js';

/** Every command that we or our scripts send. */
const COMMANDS =
  'eval evalsha script|load subscribe publish pubsub ping info time get set del scan exists pexpire pttl zadd zrem zscore zcard zrange zrevrange';

/** The keys, channels and commands that the Redis user needs, in the words of ACL SETUSER. */
export function neededRights({ options }: RedisClient, keys: RedisKeys): string {
  const commands = (options.db ?? 0) === 0 ? COMMANDS : `${COMMANDS} select`;
  const patterns = `~${options.keyPrefix ?? ''}${keys.prefix}* &${keys.inboxPrefix}*`;
  return `${patterns} ${commands.replace(/\S+/g, '+$&')}`;
}
