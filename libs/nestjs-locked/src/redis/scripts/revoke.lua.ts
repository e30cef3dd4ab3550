import { REVOKED_MS } from '../../core/store/lease-timing.js';
import { protocolLua } from './protocol.lua.js';
import { RedisScript } from './redis-script.js';
import type { ScriptSettings } from './script-settings.js';

/**
 * Takes the key from its holder, or from all that have it together, who are notified at once; the next waiter gets the
 * key a second later. The variable `lock` and all functions except those of Redis and Lua are in `protocolLua`.
 */
export const revokeScript = (settings: ScriptSettings): RedisScript =>
  new RedisScript(
    'revoke',
    `
-- KEYS lock, queue, fence, lapsed · ARGV[1] an id
-- ARGV[2] the tokens that must have the lock, separated by spaces, if only those count
-- returns the value, or nil if nobody held it, if it has just been taken away, or if others have it
${protocolLua(settings)}
local REVOKED_MS = ${REVOKED_MS}
local value = redis.call('GET', lock)
if not value or string.find(value, '^revoked:') then return false end
local holders = holdersIn(value, 0)
local tokens = {}
for i, holder in ipairs(holders) do tokens[i] = holder.token end
if ARGV[2] and (holders[1] and table.concat(tokens, ' ') or value) ~= ARGV[2] then return false end
local live = heirs()
writeDespiteLack()
redis.call('SET', lock, 'revoked:' .. ARGV[1], 'PX', REVOKED_MS)
if isOurs(value) then tell(value, 'r') end
for _, token in ipairs(tokens) do tell(token, 'r') end
tellNext(live[1], REVOKED_MS)
return value
`,
  );
