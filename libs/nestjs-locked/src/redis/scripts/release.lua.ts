import { RedisScript } from '../redis-script.js';
import { PROTOCOL_LUA } from './protocol.lua.js';

/**
 * Gives the lease to the next live waiter, or deletes it; only for its owner. With a new token the process stands
 * in the queue again in the same step, or gets the lease again if nobody else waits.
 */
export const releaseScript = new RedisScript(
  'release',
  `
-- KEYS lock, queue, fence · ARGV inbox prefix, acceptMs
-- ARGV[3] token · ARGV[4] highest fencing token used, 0 = not known · ARGV[5] new token or '' · ARGV[6] leaseMs
-- ARGV[7] keepMs: the key stays taken for so long, by nobody; 0 = the next waiter gets it
-- returns released | lost
--       with a new token: granted token fence blockEnd waiters | queued token score pttl foreign
${PROTOCOL_LUA}
local token, used, newToken, leaseMs = ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
redis.call('ZREM', queue, token)
if redis.call('GET', lock) ~= token then
  if newToken == '' then return { 'lost' } end
  return take(newToken, newToken, leaseMs, false, nil)
end
local keepMs = tonumber(ARGV[7])
if keepMs > 0 then redis.call('SET', lock, 'kept:' .. token, 'PX', keepMs) else redis.call('DEL', lock) end
if used > 0 then redis.call('SET', fence, text(used), 'PX', DAY_MS) end
if newToken == '' then
  if keepMs > 0 then tellHead(keepMs) else grantNext(nil) end
  return { 'released' }
end
return compete(newToken, join(newToken, nil), leaseMs)
`,
);
