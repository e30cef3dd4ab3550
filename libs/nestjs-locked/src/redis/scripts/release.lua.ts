import { protocolLua } from './protocol.lua.js';
import { RedisScript } from './redis-script.js';
import { isGranted } from './script-replies.js';
import type { ScriptSettings } from './script-settings.js';

/** With no correction of the fence, no other request and no waiters, the lock is simply deleted. */
export const unwantedLockLua = `
if redis.pcall('GET', lock) == token and call('EXISTS', queue) == 0 then
  call('DEL', lock)
  return 'released'
end`;

/** What follows the shared functions. The arguments are those of the script. */
export const releaseLua = `
local function release(token, used, newToken, leaseMs, keepMs, waitedMs)
  newToken = newToken or ''
  used, keepMs, waitedMs = tonumber(used or 0), tonumber(keepMs or 0), tonumber(waitedMs or 0)
  -- A server out of memory accepts this first command, and then the others too.
  redis.pcall('ZREM', queue, token)
  local value = holder()
  if not has(value, token) then
    if newToken == '' then return { 'lost' } end
    local reply = take(newToken, newToken, leaseMs, false, '')
    reply[6] = 'lost' -- appended last: the old token was not in the lock any more
    return reply
  end
  if value ~= token and leaveHolders(value, token) then
    return newToken == '' and { 'released' } or take(newToken, newToken, leaseMs, false, '')
  end
  local live, isMore, unknown = heirs()
  if isMore then return { 'again' } end
  if newToken == '' then
    giveUp(token, live, used, keepMs)
    return { 'released' }
  end
  local above = after(used)
  if unknown then -- others may wait: the sender must not be the next one
    redis.call('DEL', lock)
    return redis.error_reply(unknown)
  end
  local score = waitedMs > 0 and now() - 1000 * waitedMs or nil
  return passOn(token, function()
    if not live[1] or (score and score < live[1].score) then return grant(newToken, leaseMs, above) end
    return yield(newToken, join(newToken, score), live, above)
  end)
end`;

/**
 * Hands the lease to the next live waiter, or deletes it, but only for its owner. With a new token, the process rejoins
 * the queue in the same step, or gets the lease again if nobody else waits.
 *
 * Most releases find nobody waiting. They end before the shared functions are defined, of which they need none. With a
 * new token, the sender gets the lease again only if it came before every live waiter; if the queue cannot be read, it
 * does not, because others may wait there.
 */
export const releaseScript = (settings: ScriptSettings): RedisScript =>
  new RedisScript(
    'release',
    `
-- KEYS lock, queue, fence, lapsed
-- ARGV[1] token · ARGV[2] highest fencing token used, 0 or missing = not known
-- ARGV[3] new token, '' or missing if there is none · ARGV[4] leaseMs of the new token
-- ARGV[5] keepMs: the key stays taken for this long, by nobody; 0 or missing = the next waiter gets it
-- ARGV[6] for how long the call of the new token has waited, in ms: its place is before those who came later; 0 or
--         missing = the end of the queue
-- returns released | lost
--       with a new token: granted token fence blockEnd waiters | queued token score pttl foreign
--       | again

local call, lock, queue, token = redis.call, KEYS[1], KEYS[2], ARGV[1]
if #ARGV == 1 then ${unwantedLockLua} end
${protocolLua(settings)}
${releaseLua}
return release(token, ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6])
`,
    isGranted,
  );
