import { protocolLua } from './protocol.lua.js';
import { RedisScript } from './redis-script.js';
import { releaseLua, unwantedLockLua } from './release.lua.js';
import type { ScriptSettings } from './script-settings.js';

/**
 * Carries out several acquires and releases, each with the outcome that it would have had alone: it has its own pcall,
 * and all keep to the rules of `protocolLua`, whose functions are created when the first operation needs them. All
 * locks of a batch share a fence.
 *
 * The numbers of its acquires are reserved by one write: from the current time on, if the clock is ahead of the fence.
 * When an operation has issued other numbers, which are above those, the later acquires do without. That write also
 * tells whether the server is out of memory. It then refuses the first write of a script only, so an acquire could
 * write because a release before it did. So each acquire is sent again, alone.
 */
export const batchScript = (settings: ScriptSettings): RedisScript =>
  new RedisScript(
    'batch',
    `
-- KEYS lock, queue, fence, lapsed of each operation in turn; the fence is the same for all
-- ARGV[1] for each operation, how many arguments it has: a letter from a on for acquire, from A on for release
-- ARGV the arguments of each, as acquire and release have them
-- returns the answer of each | refused reason
local call = redis.call
local choose, take, release, hasIssued
local function shared(i)
  if not choose then
    choose, take, release, hasIssued = (function()
${protocolLua(settings)}
${releaseLua}
return choose, take, release, function() return hasKept end
    end)()
  end
  choose(i)
end

-- The last number used of those reserved, nil if there are none.
local number

local function acquire(i, token, leaseMs, nowait, score)
  local lock, queue = KEYS[4 * i - 3], KEYS[4 * i - 2]
  if number and call('EXISTS', lock, queue) == 0 then
    number = number + 1
    local own = string.format('%.0f', number)
    call('SET', lock, token, 'PX', leaseMs)
    return own
  end
  shared(i)
  return take(token, token, leaseMs, nowait == '1', score)
end

local function handBack(i, token, used, ...)
  local lock, queue = KEYS[4 * i - 3], KEYS[4 * i - 2]
  if not used then ${unwantedLockLua} end
  shared(i)
  return release(token, used, ...)
end

local lacksMemory
local _, asked = string.gsub(ARGV[1], '%l', '')
if asked > 0 then
  local time = call('TIME')
  local now = time[1] * 1000000 + time[2]
  local reserved = string.format('%.0f', now + asked - 1)
  local before = redis.pcall('SET', KEYS[3], reserved, 'GET')
  if type(before) == 'table' then
    lacksMemory = string.find(before.err, 'OOM', 1, true)
  elseif not before or (#before == #reserved and before < string.format('%.0f', now)) then
    number = now - 1
  else
    call('SET', KEYS[3], before)
  end
end

local replies, at = {}, 2
for i = 1, #KEYS / 4 do
  local letter = string.byte(ARGV[1], i)
  local isAcquire = letter > 96
  local last = at + letter - (isAcquire and 97 or 65)
  local isDone, reply = true, { 'again' }
  if not isAcquire then isDone, reply = pcall(handBack, i, unpack(ARGV, at, last))
  elseif not lacksMemory then isDone, reply = pcall(acquire, i, unpack(ARGV, at, last)) end
  at = last + 1
  if hasIssued and hasIssued() then number = nil end
  local reason = type(reply) == 'table' and reply.err
  replies[i] = (reason or not isDone) and { 'refused', reason or tostring(reply) } or reply
end
return replies
`,
  );
