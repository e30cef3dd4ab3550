import type { RedisKeys } from '../scripts/redis-keys.js';
import type { RedisClient } from './redis-client.js';

/** Every command that we or our scripts send. */
const COMMANDS =
  'eval evalsha script|load subscribe publish pubsub ping info time get set del scan exists pexpire pttl zadd zrem zscore zcard zrange zrevrange';

/** What is needed besides for the nodes of a cluster. */
const CLUSTER_COMMANDS = 'cluster|myid cluster|slots asking';

/** The keys, channels and commands that the Redis user needs, in the words of ACL SETUSER. */
export function neededRights(
  { options }: Pick<RedisClient, 'options'>,
  keys: RedisKeys,
  inCluster = false,
): string {
  const more = inCluster ? CLUSTER_COMMANDS : (options.db ?? 0) === 0 ? '' : 'select';
  const commands = `${COMMANDS} ${more}`.trimEnd();
  const patterns = `~${options.keyPrefix ?? ''}${keys.prefix}* &${keys.inboxPrefix}*`;
  return `${patterns} ${commands.replace(/\S+/g, '+$&')}`;
}
