import { protocolLua } from './protocol.lua.js';
import { RedisScript } from './redis-script.js';
import type { ScriptSettings } from './script-settings.js';

/**
 * Asks the process that holds the key which of its calls has it, and what that waits for. Writes nothing. The variable
 * `lock` and all functions except those of Redis and Lua are in `protocolLua`.
 */
export const askHolderScript = (settings: ScriptSettings): RedisScript =>
  new RedisScript(
    'ask the holder of',
    `
-- KEYS lock, queue, fence, lapsed · ARGV[1] the process that asks · ARGV[2] the id of the question
-- returns { the holder's token, whether somebody has heard the question: 0 or more }, or nil if nobody holds it, or
-- another kind of client
${protocolLua(settings)}
local value = holder()
if not value or not isOurs(value) then return false end
return { value, tell(value, 'q', ARGV[1], ARGV[2]) or 0 }
`,
  );
