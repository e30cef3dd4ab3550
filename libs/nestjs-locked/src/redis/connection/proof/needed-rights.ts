import type { RedisKeys } from '../../scripts/redis-keys.js';
import type { RedisClient } from '../server/redis-client.js';
import type { RequiredReplicas } from '../server/required-replicas.js';

/** Every command sent by us or our scripts. */
const COMMANDS =
  'eval evalsha script|load subscribe publish pubsub ping info time get set del scan exists pexpire pttl';

/** Additional commands for the nodes of a cluster. */
const CLUSTER_COMMANDS = 'cluster|myid cluster|slots asking';

/** Features that need additional rights. */
export interface NeededFor {
  readonly inCluster?: boolean;
  /** Which replicas must have a lease before it counts. @default the master alone */
  readonly replicas?: RequiredReplicas | undefined;
}

/** The keys, channels and commands that the Redis user needs, in the syntax of ACL SETUSER. */
export function neededRights(
  { options }: Pick<RedisClient, 'options'>,
  keys: RedisKeys,
  { inCluster = false, replicas }: NeededFor = {},
): string {
  const commands = [COMMANDS, keys.commands];
  if (inCluster) commands.push(CLUSTER_COMMANDS);
  else if ((options.db ?? 0) !== 0) commands.push('select');
  if (replicas !== undefined) commands.push(replicas.aof ? 'waitaof' : 'wait');
  const patterns = keys.rights(options.keyPrefix ?? '');
  return `${patterns} ${commands.join(' ').replace(/\S+/g, '+$&')}`;
}
