import { protocolLua, type ScriptSettings } from './protocol.lua.js';
import { RedisScript } from './redis-script.js';
import { isGranted } from './script-replies.js';

/**
 * A waiter gives up. If it was granted the lock in the meantime, the lock is handed on, or kept if this is a last try.
 */
export const leaveScript = (settings: ScriptSettings): RedisScript =>
  new RedisScript(
    'leave',
    `
-- KEYS lock, queue, fence, lapsed
-- ARGV[1] token · ARGV[2] token of a re-check in flight or '' · ARGV[3] take 0|1 · ARGV[4] leaseMs
-- returns left
--       with take: granted token fence blockEnd waiters
--       | again
${protocolLua(settings)}
local token, other, last, leaseMs = ARGV[1], ARGV[2], ARGV[3] == '1', ARGV[4]
redis.pcall('ZREM', queue, token, other)
local value = holder()
local isMine = value and (value == token or (other ~= '' and value == other))
if isMine and last then return prolonged(value, leaseMs) end
if not isMine and (value or not last) then return { 'left' } end
local live, isMore = (isMine and heirs or living)()
if isMore then return { 'again' } end
if isMine then redis.call('DEL', lock) elseif not live[1] then return grant(token, leaseMs) end
if live[1] then
  if not isMine then noticeLapse() end
  handTo(live[1], live[2])
end
return { 'left' }
`,
    isGranted,
  );
