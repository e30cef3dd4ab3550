import { RedisScript } from '../redis-script.js';

/** Takes several locks if all of them are free and nobody waits for any; else none. */
export const acquireTogetherScript = new RedisScript(
  'acquire-together',
  `
-- KEYS lock, queue, fence of each lock in turn · ARGV[1] leaseMs · ARGV[2] and on: the token for each lock
-- returns for each lock { fence, blockEnd }, or {} if not all were free
local BLOCK, DAY_MS = 1000000, 86400000
local replies = {}
for i = 1, #KEYS, 3 do
  local holder = redis.call('GET', KEYS[i])
  local mine = holder == ARGV[2 + (i - 1) / 3]
  if not mine and (holder or redis.call('EXISTS', KEYS[i + 1]) == 1) then return replies end
end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
for i = 1, #KEYS, 3 do
  local stored = tonumber(redis.call('GET', KEYS[i + 2]) or '0') or 0
  local first = math.max(stored + 1, now)
  local last = string.format('%.0f', first + BLOCK)
  redis.call('SET', KEYS[i + 2], last, 'PX', DAY_MS)
  redis.call('SET', KEYS[i], ARGV[2 + (i - 1) / 3], 'PX', ARGV[1])
  replies[#replies + 1] = { string.format('%.0f', first), last }
end
return replies
`,
);
