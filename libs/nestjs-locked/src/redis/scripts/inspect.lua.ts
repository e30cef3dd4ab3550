import { RedisScript } from '../redis-script.js';

/** What is known about one key, at one moment. Writes nothing. */
export const inspectScript = new RedisScript(
  'inspect',
  `
-- KEYS lock, queue, fence, label
-- returns { value, pttl, waiters, fence or '', label with its token or '' }, or {} = free
local value = redis.pcall('GET', KEYS[1])
if not value then return {} end
if type(value) == 'table' then value = '' end -- of another type: somebody else's
return {
  value,
  redis.call('PTTL', KEYS[1]),
  redis.call('ZCARD', KEYS[2]),
  redis.call('GET', KEYS[3]) or '',
  redis.call('GET', KEYS[4]) or '',
}
`,
);
