import { protocolLua } from './protocol.lua.js';
import { RedisScript } from './redis-script.js';
import { isGranted } from './script-replies.js';
import type { ScriptSettings } from './script-settings.js';

/**
 * Gives a lease to a new token, if the old one has it alone: so only one of several senders gets it, and only while the
 * lease lasts, also on a server out of memory. It then has the length that the new holder wants, and those that wait
 * keep their places. The new numbers are greater than those used, so that the fence refuses the old holder as soon as
 * the new one has claimed.
 *
 * A token that is still in the queue, because the server has refused to remove it, could be granted a second time.
 */
export const adoptScript = (settings: ScriptSettings): RedisScript =>
  new RedisScript(
    'adopt',
    `
-- KEYS lock, queue, fence, lapsed
-- ARGV[1] token · ARGV[2] new token · ARGV[3] leaseMs · ARGV[4] highest fencing token used
-- returns granted newToken fence blockEnd waiters | lost
${protocolLua(settings)}
local token, newToken, leaseMs = ARGV[1], ARGV[2], ARGV[3]
local value = holder()
if value == newToken then return prolonged(value, newToken, leaseMs) end
if value ~= token or redis.call('ZSCORE', queue, token) then return { 'lost' } end
writeDespiteLack()
return grant(newToken, leaseMs, math.max(least(), tonumber(ARGV[4]) + 1))
`,
    isGranted,
  );
