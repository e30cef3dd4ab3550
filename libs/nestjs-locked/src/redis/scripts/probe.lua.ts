import { RedisScript } from './redis-script.js';
import type { ScriptSettings } from './script-settings.js';

/**
 * Performs once, on a separate key, every operation for which the other scripts need a right, and publishes to our own
 * inbox.
 */
export const probeScript = ({ inCluster }: ScriptSettings): RedisScript =>
  new RedisScript(
    'probe',
    `
-- KEYS lock, queue of a key that nobody else uses; none if a node of a cluster has no slots
-- ARGV[1] own inbox channel · ARGV[2] message
-- returns the number of listeners
local inbox = ARGV[1]${inCluster ? " .. '@' .. redis.call('CLUSTER', 'MYID')" : ''}
if KEYS[1] then
  if tonumber(redis.call('TIME')[1]) <= 0 then return redis.error_reply('NOTIME in scripts') end
  redis.call('SET', KEYS[1], '1', 'PX', 1000)
  redis.call('PEXPIRE', KEYS[1], 1000)
  redis.call('PTTL', KEYS[1])
  redis.call('GET', KEYS[1])
  redis.call('SET', KEYS[1], '1', 'GET', 'PX', 1000)
  redis.call('EXISTS', KEYS[1], KEYS[2])
  redis.call('ZADD', KEYS[2], 1, '1', 2, '2')
  redis.call('ZSCORE', KEYS[2], '1')
  redis.call('ZCARD', KEYS[2])
  redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
  redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
  redis.call('ZREM', KEYS[2], '1', '2')
  redis.call('DEL', KEYS[1])
end
redis.call('PUBLISH', inbox, ARGV[2])
return redis.call('PUBSUB', 'NUMSUB', inbox)[2]
`,
  );
