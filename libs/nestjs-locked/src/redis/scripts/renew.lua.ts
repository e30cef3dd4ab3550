import { protocolLua } from './protocol.lua.js';
import { RedisScript } from './redis-script.js';
import { isRenewed } from './script-replies.js';
import type { ScriptSettings } from './script-settings.js';

/**
 * Prolongs many leases, each only for its owner. It never creates or shortens a lease. One broken key does not affect
 * the answers for the others.
 */
export const renewScript = (settings: ScriptSettings): RedisScript =>
  new RedisScript(
    'renew',
    `
-- KEYS lock, queue, fence, lapsed of each lease in turn
-- ARGV token, leaseMs, highest fencing token used (0 = not known), how many more are needed (0 = none) of each in turn
-- returns for each lease { blockEnd or 0, waiters }, or {} = not yours
${protocolLua(settings)}
-- A fence of one lock must last as long as the lease plus fenceKeepMs. When it would not, its expiry is set with twice
-- fenceKeepMs, so that most renewals need not write it. A shared one does not expire.
local function keepFence(ms)
  if isShared() then return true end
  local leftMs, keepMs = redis.call('PTTL', fence), tonumber(fenceKeepMs)
  if leftMs < 0 then return false end
  if leftMs < ms + keepMs then redis.call('PEXPIRE', fence, text(ms + 2 * keepMs)) end
  return true
end

local replies = {}
for i = 1, #KEYS / 4 do
  choose(i)
  local token, leaseMs, used = ARGV[4 * i - 3], ARGV[4 * i - 2], tonumber(ARGV[4 * i - 1])
  replies[i] = {}
  local value = holder()
  if has(value, token) then
    local ms = prolong(value, token, leaseMs)
    local blockEnd = 0
    local more = tonumber(ARGV[4 * i])
    if more > 0 then blockEnd = reserve(used, more, ms)
    elseif not keepFence(ms) then blockEnd = reserve(used, LARGEST_BLOCK, ms) end
    replies[i] = { text(blockEnd), waiters() }
  end
end
return replies
`,
    isRenewed,
  );
