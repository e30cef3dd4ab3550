import { FENCE_BLOCK } from '../../core/store/fence-block.js';
import type { ScriptSettings } from './script-settings.js';

/**
 * Creates and stores fencing numbers, called fencing tokens in the public API. A new one (`mint`) is greater than all
 * before, even after a restart without data, because it is never below the server's time in microseconds. Part of
 * `protocolLua`, which defines `fence` and `now`.
 */
export const fenceLua = (settings: ScriptSettings): string => `
local BLOCK, fenceKeepMs = ${FENCE_BLOCK}, '${settings.fenceKeepMs}'

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

-- Without a stored number, the next one comes from the clock. So a number is kept until the clock has passed it, even
-- if the clock is set back by up to fenceKeepMs, and never for less than its holder's lease.
local function keep(number, leaseMs)
  local aheadMs = math.ceil((number - now()) / 1000)
  local at = aheadMs > 0 and ' ' .. text(now()) or ''
  -- Zero, from an expired lease with a fenceKeepMs of 0, would be refused.
  local ms = math.max(1, math.max(aheadMs, leaseMs) + fenceKeepMs)
  redis.call('SET', fence, text(number) .. at, 'PX', text(ms))
end

local function mint(leaseMs, above)
  local first = math.max(above or least(), now())
  keep(first + BLOCK, tonumber(leaseMs))
  return text(first), text(first + BLOCK)
end
`;
