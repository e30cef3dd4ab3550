import { loneHoldersLua } from './holders.lua.js';
import { RedisScript } from './redis-script.js';

/**
 * Prolongs one lease through its lock key alone. While a slot is moving between nodes of a cluster, a script with
 * missing keys is refused, and most leases have no queue, but each has its lock key. Reserves no fencing numbers and
 * does not count waiters.
 */
export const shortRenewScript = new RedisScript(
  'short-renew',
  `
-- KEYS lock · ARGV[1] token · ARGV[2] leaseMs
-- returns as renew, for one lease: { 0, 0 }, or {} = not yours
${loneHoldersLua}
local value = redis.call('GET', KEYS[1])
if value == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], text(math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2]))))
  return { { 0, 0 } }
end
local isOurs = value and prolongHolder(KEYS[1], value, ARGV[1], tonumber(ARGV[2]), serverMs())
return { isOurs and { 0, 0 } or {} }
`,
);
