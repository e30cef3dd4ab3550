import { protocolLua } from './protocol.lua.js';
import { RedisScript } from './redis-script.js';
import { isAcquired } from './script-replies.js';
import type { ScriptSettings } from './script-settings.js';

/** Takes a free lock, or joins the queue. With `nowait`, it neither joins the queue nor overtakes it. */
export const acquireScript = (settings: ScriptSettings): RedisScript =>
  new RedisScript(
    'acquire',
    `
-- KEYS lock, queue, fence, lapsed
-- ARGV[1] token · ARGV[2] leaseMs · ARGV[3] leaseMs + fenceKeepMs
-- ARGV[4] nowait 0|1, 0 if missing · ARGV[5] score kept from an earlier attempt, missing if there is none
-- returns fence
--       | granted token fence blockEnd waiters
--       | queued token score pttl foreign
--       | busy pttl foreign
--       | again

-- Nearly every lock is free and has no waiters. Then four commands suffice, and none of the functions below is created.
-- The clock is ahead of the fence, so the current time is the next number, and no other is reserved with it. The fence
-- is written first: if that fails, the lock must not be written either.
local call, lock, fence = redis.call, KEYS[1], KEYS[3]
if call('EXISTS', lock, KEYS[2]) == 0 then
  local time = call('TIME')
  local number = time[1] .. string.sub('00000' .. time[2], -6)
  local before = call('SET', fence, number, 'PX', ARGV[3], 'GET')
  if not before or (before < number and #before == #number) then
    call('SET', lock, ARGV[1], 'PX', ARGV[2])
    return number
  end
  call('SET', fence, before, 'PX', ARGV[3]) -- it is read below
end
${protocolLua(settings)}
return take(ARGV[1], ARGV[1], ARGV[2], ARGV[4] == '1', ARGV[5])
`,
    isAcquired,
  );
