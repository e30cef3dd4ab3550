import { RedisScript } from '../redis-script.js';

/** What is known about one key, at one moment. Writes nothing. */
export const inspectScript = new RedisScript(
  'inspect',
  `
-- KEYS lock, queue, fence, label
-- returns { value, pttl, waiters, fence or '', label with its token or '' }, or {} = free
local value = redis.call('GET', KEYS[1])
if not value then return {} end
return {
  value,
  redis.call('PTTL', KEYS[1]),
  redis.call('ZCARD', KEYS[2]),
  redis.call('GET', KEYS[3]) or '',
  redis.call('GET', KEYS[4]) or '',
}
`,
);
