import { RedisScript } from './redis-script.js';

/**
 * Gives a lease up with its lock key alone, when its slot is moving to another node of a cluster (see
 * `shortRenewScript`). The lock is handed to nobody: those who wait look for themselves.
 */
export const shortReleaseScript = new RedisScript(
  'short-release',
  `
-- KEYS lock · ARGV[1] token · ARGV[2] keepMs: the key stays taken for this long, by nobody; 0 = it is free
-- returns released | lost
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 'lost' end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], 'kept:' .. ARGV[1], 'PX', ARGV[2])
end
return 'released'
`,
);
