import { protocolLua } from './protocol.lua.js';
import { RedisScript } from './redis-script.js';
import { isAcquired } from './script-replies.js';
import type { ScriptSettings } from './script-settings.js';

/** Nearly every lock is free and has no waiters. Then four commands suffice, and no shared function is created. */
const freeLockLua = ({ fenceKeepMs }: ScriptSettings): string => `
if call('EXISTS', lock, queue) == 0 then
  local time = call('TIME')
  local number = time[1] .. string.sub('00000' .. time[2], -6)
  local expiry = fence == lock .. ':fence' and { 'PX', leaseMs + ${fenceKeepMs} } or {}
  local before = call('SET', fence, number, 'GET', unpack(expiry))
  if not before or (before < number and #before == #number) then
    call('SET', lock, token, 'PX', leaseMs)
    return number
  end
  call('SET', fence, before, unpack(expiry)) -- it is read below
end`;

/**
 * Takes a free lock, or joins the queue. With `nowait`, it neither joins the queue nor overtakes it.
 *
 * If the clock is ahead of the fence, the current time is the next number, and no other is reserved with it. The fence
 * is written first: if that fails, the lock must not be written either.
 */
export const acquireScript = (settings: ScriptSettings): RedisScript =>
  new RedisScript(
    'acquire',
    `
-- KEYS lock, queue, fence, lapsed
-- ARGV[1] token · ARGV[2] leaseMs
-- ARGV[3] nowait 0|1, 0 if missing · ARGV[4] score kept from an earlier attempt, missing if there is none
-- returns fence
--       | granted token fence blockEnd waiters
--       | queued token score pttl foreign
--       | busy pttl foreign
--       | again

local call, lock, queue, fence = redis.call, KEYS[1], KEYS[2], KEYS[3]
local token, leaseMs, nowait, score = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
${freeLockLua(settings)}
${protocolLua(settings)}
return take(token, token, leaseMs, nowait == '1', score)
`,
    isAcquired,
  );
