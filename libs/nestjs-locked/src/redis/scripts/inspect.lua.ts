import { RedisScript } from './redis-script.js';

/** Reads the state of one key at one moment, without writing. */
export const inspectScript = new RedisScript(
  'inspect',
  `
-- KEYS lock, queue · ARGV[1] the process that asks · ARGV[2] how many of those that wait are named
-- returns { value, pttl, waiters, how many of them it is itself, { token, how long it has waited in ms,
-- token, … } }, or {} = free
-- A key of another type belongs to another client and is ignored.
local function read(...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  return string.find(reply.err, 'WRONGTYPE', 1, true) and '' or error(reply.err)
end

local value = read('GET', KEYS[1])
if not value then return {} end
local waiters, waitsHere = read('ZRANGE', KEYS[2], 0, -1), 0
if waiters == '' then waiters = {} end
for _, token in ipairs(waiters) do
  if string.sub(token, 1, #ARGV[1]) == ARGV[1] then waitsHere = waitsHere + 1 end
end
local named = ARGV[2] == '0' and '' or read('ZRANGE', KEYS[2], 0, tonumber(ARGV[2]) - 1, 'WITHSCORES')
if named == '' then named = {} end
if named[1] then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + time[2] / 1000
  for i = 2, #named, 2 do named[i] = string.format('%.0f', math.max(0, now - named[i] / 1000)) end
end
return { value, redis.call('PTTL', KEYS[1]), #waiters, waitsHere, named }
`,
);
