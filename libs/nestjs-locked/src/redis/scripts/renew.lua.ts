import { protocolLua, type ScriptSettings } from './protocol.lua.js';
import { RedisScript } from './redis-script.js';

/**
 * Prolongs many leases, each only for its owner. It never creates a lease and never shortens one. One broken key does
 * not spoil the answers for the others.
 */
export const renewScript = (settings: ScriptSettings): RedisScript =>
  new RedisScript(
    'renew',
    `
-- KEYS lock, queue, fence, lapsed of each lease in turn
-- ARGV token, leaseMs, highest fencing token used of each in turn
-- returns for each lease { blockEnd, waiters }, or {} = not yours
${protocolLua(settings)}
local replies = {}
for i = 1, #KEYS / 4 do
  choose(i)
  local token, leaseMs, used = ARGV[3 * i - 2], ARGV[3 * i - 1], tonumber(ARGV[3 * i])
  replies[i] = {}
  if holder() == token then
    local ms = prolong(leaseMs)
    local isReadable, number = pcall(stored)
    local blockEnd = math.max(isReadable and number or 0, used + BLOCK)
    keep(blockEnd, ms)
    replies[i] = { text(blockEnd), waiters() }
  end
end
return replies
`,
  );
