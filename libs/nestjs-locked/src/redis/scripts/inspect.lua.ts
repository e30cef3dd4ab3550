import { RedisScript } from './redis-script.js';

/** Reads the state of one key at one moment, without writing. */
export const inspectScript = new RedisScript(
  'inspect',
  `
-- KEYS lock, queue, fence, lapsed, label returns { value, pttl, waiters, fence or '', label with its token or '' }, or
-- {} = free A key of another type belongs to another client and is ignored.
local function read(command, key)
  local reply = redis.pcall(command, key)
  if type(reply) ~= 'table' then return reply end
  return string.find(reply.err, 'WRONGTYPE', 1, true) and '' or error(reply.err)
end

local value = read('GET', KEYS[1])
if not value then return {} end
return {
  value,
  redis.call('PTTL', KEYS[1]),
  read('ZCARD', KEYS[2]),
  read('GET', KEYS[3]) or '',
  read('GET', KEYS[5]) or '',
}
`,
);
