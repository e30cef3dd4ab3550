import { freeLockLua } from './acquire.lua.js';
import { protocolLua } from './protocol.lua.js';
import { RedisScript } from './redis-script.js';
import { releaseLua, unwantedLockLua } from './release.lua.js';
import type { ScriptSettings } from './script-settings.js';

/**
 * Carries out several acquires and releases, each with the outcome that it would have had alone: it has its own pcall,
 * and all keep to the rules of `protocolLua`, whose functions are created when the first operation needs them.
 *
 * A server out of memory refuses the first write of a script only, so an operation could write because an earlier one
 * did. A write that needs memory and has no effect tells beforehand. Then each acquire is sent again, alone.
 */
export const batchScript = (settings: ScriptSettings): RedisScript =>
  new RedisScript(
    'batch',
    `
-- KEYS lock, queue, fence, lapsed of each operation in turn
-- ARGV[1] for each operation, how many arguments it has: a letter from a on for acquire, from A on for release
-- ARGV the arguments of each, as acquire and release have them
-- returns the answer of each | refused reason
local call, number = redis.call
local choose, take, release
local function shared(i)
  if not choose then
    choose, take, release = (function()
${protocolLua(settings)}
${releaseLua}
return choose, take, release
    end)()
  end
  choose(i)
end

local function acquire(i, token, leaseMs, fenceMs, nowait, score)
  local lock, queue, fence = unpack(KEYS, 4 * i - 3, 4 * i - 1)
  ${freeLockLua}
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
if string.find(ARGV[1], '%l') then
  local written = redis.pcall('ZADD', KEYS[2], 'XX', 0, '')
  lacksMemory = type(written) == 'table' and string.find(written.err, 'OOM', 1, true)
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
  local reason = type(reply) == 'table' and reply.err
  replies[i] = (reason or not isDone) and { 'refused', reason or tostring(reply) } or reply
end
return replies
`,
  );
