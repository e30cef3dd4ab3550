import { PROTOCOL_LUA } from './protocol.lua.js';
import { RedisScript } from './redis-script.js';

/**
 * Gives the lease to the next live waiter, or deletes it, but only for its owner. With a new token, the process joins
 * the queue again in the same step, or gets the lease again if nobody else waits.
 */
export const releaseScript = new RedisScript(
  'release',
  `
-- KEYS lock, queue, fence, lapsed · ARGV inbox prefix, acceptMs, fenceKeepMs
-- ARGV[4] token · ARGV[5] highest fencing token used, 0 = not known · ARGV[6] new token or '' · ARGV[7] leaseMs
-- ARGV[8] keepMs: the key stays taken for this long, by nobody; 0 = the next waiter gets it
-- returns released | lost
--       with a new token: granted token fence blockEnd waiters | queued token score pttl foreign
--       | again
${PROTOCOL_LUA}
local token, used, newToken, leaseMs, keepMs = ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7], tonumber(ARGV[8])
-- The first command is one that a server that is out of memory accepts. It then accepts the others as well.
redis.pcall('ZREM', queue, token)
if holder() ~= token then
  if newToken == '' then return { 'lost' } end
  local reply = take(newToken, newToken, leaseMs, false, '')
  reply[6] = 'lost' -- appended last: the old token was not in the lock any more
  return reply
end
local live, isMore = heirs()
if isMore then return { 'again' } end
if keepMs > 0 then redis.call('SET', lock, 'kept:' .. token, 'PX', keepMs) else redis.call('DEL', lock) end
local above = used > 0 and used + 1 or nil
if newToken ~= '' then
  if live[1] then return yield(newToken, join(newToken, nil), live, above) end
  return grant(newToken, leaseMs, above)
end
if live[1] and keepMs == 0 then
  handTo(live[1], live[2], above)
else
  if above then keep(used, 0) end
  tellNext(live[1], keepMs)
end
return { 'released' }
`,
);
