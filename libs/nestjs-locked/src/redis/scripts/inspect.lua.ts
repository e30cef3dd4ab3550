import { RedisScript } from './redis-script.js';

/** Reads the state of one key at one moment, without writing. */
export const inspectScript = new RedisScript(
  'inspect',
  `
-- KEYS lock, queue · ARGV[1] the process that asks
-- returns { value, pttl, waiters, 1 if the process is one of them or else 0 }, or {} = free
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
  if string.sub(token, 1, #ARGV[1]) == ARGV[1] then waitsHere = 1 end
end
return { value, redis.call('PTTL', KEYS[1]), #waiters, waitsHere }
`,
);
