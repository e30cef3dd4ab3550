import { loneHoldersLua } from './holders.lua.js';
import { RedisScript } from './redis-script.js';

/**
 * Releases a lease through its lock key alone, while its slot is moving to another node of a cluster (see
 * `shortRenewScript`). The lock is not handed over: waiters re-check.
 */
export const shortReleaseScript = new RedisScript(
  'short-release',
  `
-- KEYS lock · ARGV[1] token · ARGV[2] keepMs: the key stays taken for this long, by nobody; 0 = it is free
-- returns released | lost
${loneHoldersLua}
local value = redis.call('GET', KEYS[1])
if value ~= ARGV[1] then
  local othersHave = value and removeHolder(KEYS[1], value, ARGV[1], serverMs())
  if othersHave then return 'released' end
  if othersHave == nil or not value then return 'lost' end
end
if ARGV[2] == '0' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], 'kept:' .. ARGV[1], 'PX', ARGV[2])
end
return 'released'
`,
);
