import { RedisScript } from '../redis-script.js';

/**
 * Prolongs many leases, each only for its owner; never creates one and never shortens one. One broken key does not
 * spoil the answers of the others.
 */
export const renewScript = new RedisScript(
  'renew',
  `
-- KEYS lock, queue, fence of each lease in turn · ARGV token, leaseMs, highest fencing token used of each in turn
-- returns for each lease { blockEnd, waiters }, or {} = not yours
local BLOCK, DAY_MS = 1000000, 86400000
local replies = {}
for i = 1, #KEYS, 3 do
  local lock, queue, fence = KEYS[i], KEYS[i + 1], KEYS[i + 2]
  local token, leaseMs, used = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
  local reply = {}
  if redis.pcall('GET', lock) == token then
    redis.call('PEXPIRE', lock, string.format('%.0f', math.max(redis.call('PTTL', lock), leaseMs)))
    local stored = redis.pcall('GET', fence)
    local blockEnd = math.max(type(stored) == 'string' and tonumber(stored) or 0, used + BLOCK)
    redis.call('SET', fence, string.format('%.0f', blockEnd), 'PX', DAY_MS)
    local waiters = redis.pcall('ZCARD', queue)
    reply = { string.format('%.0f', blockEnd), type(waiters) == 'number' and waiters or 0 }
  end
  replies[#replies + 1] = reply
end
return replies
`,
);
