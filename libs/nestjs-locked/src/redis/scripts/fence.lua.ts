import { FENCE_BLOCK, LARGEST_FENCE_BLOCK } from '../../core/store/fence-block.js';
import type { ScriptSettings } from './script-settings.js';

/**
 * How far ahead of the clock a number may be without the time of its writing, in milliseconds. No failover is so quick
 * that the clock has not passed it.
 */
const HARDLY_AHEAD_MS = 20;

/** From here on, numbers are not counted one by one any more. The clock reaches it in 2255. */
const HIGHEST_NUMBER = Number.MAX_SAFE_INTEGER;

/** A number further ahead of the clock than this, in microseconds, is issued without others. */
const FAR_AHEAD_MICROS = 1_000;

/**
 * Creates and stores fencing numbers, called fencing tokens in the public API. A new one (`mint`) is greater than all
 * before, even after a restart without data, because it is never below the server's time in microseconds. Part of
 * `protocolLua`, which defines `lock`, `fence` and `now`.
 *
 * A fence is a number that no number in use or reserved exceeds. All locks share one, unless they may be on different
 * servers. It is never lowered, because others may have numbers below it; only a fence of one lock takes back what its
 * holder has not used.
 */
export const fenceLua = (settings: ScriptSettings): string => `
local BLOCK, LARGEST_BLOCK, fenceKeepMs = ${FENCE_BLOCK}, ${LARGEST_FENCE_BLOCK}, '${settings.fenceKeepMs}'

local function isShared() return fence ~= lock .. ':fence' end

-- The stored fencing number and the time of its writing, which was stored only if the number was ahead of the clock;
-- otherwise, the current time is returned instead.
local function stored()
  local number, at = string.match(redis.call('GET', fence) or '', '^(%d+) ?(%d*)$')
  return tonumber(number) or 0, tonumber(at) or now()
end

-- The least number that may be issued. A failover may lose the last numbers stored, so a number ahead of the clock
-- grows as time passes: numbers issued after the failover are then above those issued before it and lost. It grows at
-- half the speed of the clock, so that the clock catches up.
local function least()
  local number, at = stored()
  return number + 1 + math.floor(math.max(0, now() - at) / 2)
end

-- Without a stored number, the next one comes from the clock. So the fence of one lock is kept until the clock has
-- passed it, even if the clock is set back by up to fenceKeepMs, and never for less than its holder's lease. A shared
-- fence is one key, and kept for ever.
local hasKept = false
local function keep(number, leaseMs)
  if number > ${HIGHEST_NUMBER} then
    error('the fencing number in ' .. fence .. ' is ' .. text(number) .. ', which no clock has reached: it was overwritten, or the clock was wrong; write the right one, or delete it', 0)
  end
  hasKept = true
  local aheadMs = math.ceil((number - now()) / 1000)
  local value = text(number) .. (aheadMs > ${HARDLY_AHEAD_MS} and ' ' .. text(now()) or '')
  if isShared() then return redis.call('SET', fence, value) end
  -- Zero, from an expired lease with a fenceKeepMs of 0, would be refused.
  local ms = math.max(1, math.max(aheadMs, leaseMs) + fenceKeepMs)
  redis.call('SET', fence, value, 'PX', text(ms))
end

-- Numbers far ahead of the clock are issued one by one, so that it catches up although many locks share the fence.
local function mint(leaseMs, above, more)
  local first = math.max(above or least(), now())
  local last = first > now() + ${FAR_AHEAD_MICROS} and first or first + (more or BLOCK)
  keep(last, tonumber(leaseMs))
  return text(first), text(last)
end

-- Numbers for a holder, after the highest that it has used. If that is unknown, they are new, as with a grant.
local function reserve(used, count, leaseMs)
  local isReadable, number = pcall(used > 0 and stored or least)
  if not isReadable then number = 0 end
  local last = used > 0 and math.max(number, used + count) or math.max(number, now()) + count - 1
  if last > number or not isShared() then keep(last, leaseMs) end
  return last
end
`;
