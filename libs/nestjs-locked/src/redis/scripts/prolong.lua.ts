import { loneHoldersLua } from './holders.lua.js';
import { RedisScript } from './redis-script.js';
import { isProlonged } from './script-replies.js';

/**
 * Prolongs many leases that need no fencing numbers, each only for its owner, as `renewScript` does. It says nothing of
 * those that were prolonged and are not wanted, which are nearly all. Their fence is shared, so that none must be kept
 * alive.
 *
 * With GT, which Redis has from 7.0 on, PEXPIRE never shortens a lease. Where that fails, or does nothing, because the
 * lease is longer or has lost its end, its end is looked at first, and written again even if it stays: a master that
 * has lost its replicas, or is none any more, refuses to write, and must not confirm a lease that its successor lets
 * expire.
 */
export const prolongScript = new RedisScript(
  'prolong',
  `
-- KEYS lock, queue of each lease in turn
-- ARGV token, leaseMs of each in turn
-- returns how many were prolonged, and for each lease that was not { its number }, or that is wanted { its number, waiters }
local call, try = redis.call, redis.pcall
${loneHoldersLua}
local replies, queues, hasGT = { 0 }, {}, true
for i = 2, #KEYS, 2 do queues[i / 2] = KEYS[i] end
local areWanted = call('EXISTS', unpack(queues)) > 0

local function count(i)
  replies[1] = replies[1] + 1
  local waiters = areWanted and try('ZCARD', queues[i])
  if type(waiters) == 'number' and waiters > 0 then replies[#replies + 1] = { i, waiters } end
end

-- What several holders have is written when all of them are prolonged: a thousand may be in one value.
local changed, order, nowMs = {}, {}, nil
local function prolongOneOf(lock, value, i)
  nowMs = nowMs or serverMs()
  local before = changed[lock]
  local prolonged, ms = prolongedIn(before and value or present(value, nowMs), ARGV[2 * i - 1], tonumber(ARGV[2 * i]), nowMs)
  if not prolonged then return false end
  if not before then order[#order + 1] = lock end
  changed[lock] = { value = prolonged, ms = math.max(before and before.ms or 0, ms) }
  return true
end
local function writeChanged()
  for _, lock in ipairs(order) do addHolders(lock, changed[lock].value, '', changed[lock].ms) end
end

for i = 1, #queues do
  local lock, ms = KEYS[2 * i - 1], ARGV[2 * i]
  local value = changed[lock] and changed[lock].value or try('GET', lock)
  if value == ARGV[2 * i - 1] then
    local done = hasGT and try('PEXPIRE', lock, ms, 'GT')
    if done ~= 1 then
      hasGT = done == 0
      call('PEXPIRE', lock, text(math.max(call('PTTL', lock), tonumber(ms))))
    end
    count(i)
  elseif type(value) == 'string' and string.find(value, ARGV[2 * i - 1], 1, true) and prolongOneOf(lock, value, i) then
    count(i)
  elseif type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    writeChanged()
    return value
  else
    replies[#replies + 1] = { i }
  end
end
writeChanged()
return replies
`,
  isProlonged,
);
