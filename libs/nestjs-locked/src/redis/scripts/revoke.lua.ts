import { REVOKED_MS } from '../../core/store/lease-timing.js';
import { protocolLua } from './protocol.lua.js';
import { RedisScript } from './redis-script.js';
import type { ScriptSettings } from './script-settings.js';

/**
 * Takes the key from its holder, who is notified at once; the next waiter gets the key a second later. The variable
 * `lock` and all functions except those of Redis and Lua are in `protocolLua`.
 */
export const revokeScript = (settings: ScriptSettings): RedisScript =>
  new RedisScript(
    'revoke',
    `
-- KEYS lock, queue, fence, lapsed · ARGV[1] an id · ARGV[2] the value that the lock must have, if only that one counts
-- returns the holder's value, or nil if nobody held it, if it has just been taken away, or if it has another value
${protocolLua(settings)}
local REVOKED_MS = ${REVOKED_MS}
local value = redis.call('GET', lock)
if not value or string.find(value, '^revoked:') then return false end
if ARGV[2] and value ~= ARGV[2] then return false end
local live = heirs()
writeDespiteLack()
redis.call('SET', lock, 'revoked:' .. ARGV[1], 'PX', REVOKED_MS)
if isOurs(value) then tell(value, 'r') end
tellNext(live[1], REVOKED_MS)
return value
`,
  );
