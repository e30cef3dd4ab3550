import { loneHoldersLua } from './holders.lua.js';
import { RedisScript } from './redis-script.js';

/**
 * Prolongs one lease, or several permits, through their lock key alone. While a slot is moving between nodes of a
 * cluster, a script with missing keys is refused, and most leases have no queue, but each has its lock key. Reserves no
 * fencing numbers and does not count waiters. What several holders have is written once.
 */
export const shortRenewScript = new RedisScript(
  'short-renew',
  `
-- KEYS lock · ARGV token, leaseMs of each in turn
-- returns as renew for each lease: { 0, 0 }, or {} = not yours
${loneHoldersLua}
local lock, replies = KEYS[1], {}
local value, nowMs, prolonged, longest = redis.call('GET', lock), nil, nil, 0
for i = 1, #ARGV, 2 do
  local token, leaseMs = ARGV[i], tonumber(ARGV[i + 1])
  local isOurs = value == token
  if isOurs then
    redis.call('PEXPIRE', lock, text(math.max(redis.call('PTTL', lock), leaseMs)))
  elseif value and string.find(value, token, 1, true) then
    nowMs = nowMs or serverMs()
    local longer, ms = prolongedIn(prolonged or present(value, nowMs), token, leaseMs, nowMs)
    if longer then isOurs, prolonged, longest = true, longer, math.max(longest, ms) end
  end
  replies[#replies + 1] = isOurs and { 0, 0 } or {}
end
if prolonged then addHolders(lock, prolonged, '', longest) end
return replies
`,
);
