import { FENCE_BLOCK } from '../../core/store/fence-block.js';
import type { ScriptSettings } from './script-settings.js';

/**
 * How fencing numbers are made and kept: the public API calls them fencing tokens. A new one (`mint`) is greater than
 * all before it, also after a restart without data, because it is never below the time of the server in microseconds.
 * This is a part of `protocolLua`, which says what `fence` and `now` are.
 */
export const fenceLua = (settings: ScriptSettings): string => `
local BLOCK, fenceKeepMs = ${FENCE_BLOCK}, '${settings.fenceKeepMs}'

-- The stored fencing number, and the time when it was written. That time was stored only if the number was ahead of
-- the clock; otherwise the present time stands in for it.
local function stored()
  local number, at = string.match(redis.call('GET', fence) or '', '^(%d+) ?(%d*)$')
  return tonumber(number) or 0, tonumber(at) or now()
end

-- The least number that may be given out. A failover may lose the last numbers that were stored, so a number that is
-- ahead of the clock grows as time passes: what is given out after the failover is then above what was given out before
-- it and lost. It grows at half the speed of the clock, so that the clock catches up with it.
local function least()
  local number, at = stored()
  return number + 1 + math.floor(math.max(0, now() - at) / 2)
end

-- Without a stored number, the next one comes from the clock. So a number is kept until the clock has passed it, even
-- if the clock is set back by up to fenceKeepMs, and never for a shorter time than its holder's lease.
local function keep(number, leaseMs)
  local aheadMs = math.ceil((number - now()) / 1000)
  local at = aheadMs > 0 and ' ' .. text(now()) or ''
  -- A time of nothing, which an ended lease and a fenceKeepMs of 0 make, would be refused.
  local ms = math.max(1, math.max(aheadMs, leaseMs) + fenceKeepMs)
  redis.call('SET', fence, text(number) .. at, 'PX', text(ms))
end

local function mint(leaseMs, above)
  local first = math.max(above or least(), now())
  keep(first + BLOCK, tonumber(leaseMs))
  return text(first), text(first + BLOCK)
end
`;
