import { protocolLua } from './protocol.lua.js';
import { RedisScript } from './redis-script.js';
import type { ScriptSettings } from './script-settings.js';

/**
 * Asks the process that holds the key, or the processes that have it together, which of their calls have it, and what
 * these wait for. Writes nothing. The variable `lock` and all functions except those of Redis and Lua are in
 * `protocolLua`.
 */
export const askHolderScript = (settings: ScriptSettings): RedisScript =>
  new RedisScript(
    'ask the holder of',
    `
-- KEYS lock, queue, fence, lapsed · ARGV[1] the process that asks · ARGV[2] the id of the question · ARGV[3] how many
-- are asked at the most
-- returns for each of them { token, id of its question, whether somebody has heard it: 0 or more, whether it keeps
-- out those that wait }; none if nobody holds the key, or another kind of client
${protocolLua(settings)}
-- Readers keep out a writer, and whoever waits behind it: but not if it has died, or if the grants of those that waited
-- behind it are on their way.
local function keepsOut(token)
  if not isReader(token) then return 1 end
  local head = redis.pcall('ZRANGE', queue, 0, 0)[1]
  if not head or isReader(head) then return 0 end
  return redis.pcall('PUBSUB', 'NUMSUB', inboxOf(head))[2] == 0 and 0 or 1
end
local value = holder()
local holders = value and (isOurs(value) and { { token = value } } or holdersIn(value, nowMs())) or {}
local asked = {}
for i = 1, math.min(#holders, tonumber(ARGV[3])) do
  local token, id = holders[i].token, ARGV[2] .. '.' .. i
  asked[i] = { token, id, tell(token, 'q', ARGV[1], id) or 0, keepsOut(token) }
end
return asked
`,
  );
