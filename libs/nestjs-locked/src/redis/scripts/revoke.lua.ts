import { RedisScript } from '../redis-script.js';
import { PROTOCOL_LUA } from './protocol.lua.js';

/** Takes the key from its holder. He is told at once; the next one enters after a second. */
export const revokeScript = new RedisScript(
  'revoke',
  `
-- KEYS lock, queue, fence · ARGV inbox prefix, acceptMs · ARGV[3] an id
-- returns 1, or 0 if nobody held it
${PROTOCOL_LUA}
local GRACE_MS = 1000
local value = redis.call('GET', lock)
if not value then return 0 end
redis.call('SET', lock, 'revoked:' .. ARGV[3], 'PX', GRACE_MS)
if isOurs(value) then tell(value, 'r ' .. value .. ' ' .. name) end
tellHead(GRACE_MS)
return 1
`,
);
