import { protocolLua } from './protocol.lua.js';
import { RedisScript } from './redis-script.js';
import type { ScriptSettings } from './script-settings.js';

/**
 * Takes back the remains of attempts for many keys: a place in a queue, or a lock, which is handed on. One broken key
 * does not affect the answers for the others. It can be repeated safely.
 */
export const takeBackScript = (settings: ScriptSettings): RedisScript =>
  new RedisScript(
    'take-back',
    `
-- KEYS lock, queue, fence, lapsed of each key in turn
-- ARGV token · another token or '' · highest fencing token used, 0 = not known · keepMs, as release, of each in turn;
--      a key that is free is kept as well
-- returns for each 'left', or the error | again
${protocolLua(settings)}
-- The lease has expired although the key was to stay taken. Another holder may have had it meanwhile, whose fence
-- stays.
local function keepFree(token, keepMs)
  local live, isMore = heirs()
  if not isMore then
    redis.call('SET', lock, 'kept:' .. token, 'PX', keepMs)
    tellNext(live[1], keepMs)
  end
  return isMore
end

local function takeBack(token, other, used, keepMs)
  local value = leaveQueue(token, other)
  if not value and keepMs > 0 then return keepFree(token, keepMs) end
  local mine = value and mineOf(value, token, other)
  if not mine then
    if value then pcall(passBy, value) end
    return false
  end
  if value ~= mine and leaveHolders(value, mine) then return false end
  local live, isMore = heirs()
  if not isMore then giveUp(mine, live, used, keepMs) end
  return isMore
end

local replies = {}
for i = 1, #KEYS / 4 do
  choose(i)
  local isDone, result = pcall(takeBack, ARGV[4 * i - 3], ARGV[4 * i - 2], tonumber(ARGV[4 * i - 1]), tonumber(ARGV[4 * i]))
  if isDone and result then return { 'again' } end
  replies[i] = isDone and 'left' or type(result) == 'table' and result.err or tostring(result)
end
return replies
`,
  );
