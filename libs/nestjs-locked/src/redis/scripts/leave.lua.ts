import { RedisScript } from '../redis-script.js';
import { PROTOCOL_LUA } from './protocol.lua.js';

/** A waiter gives up. A grant that crossed its leaving is handed on, or kept if this is a last try. */
export const leaveScript = new RedisScript(
  'leave',
  `
-- KEYS lock, queue, fence · ARGV inbox prefix, acceptMs
-- ARGV[3] token · ARGV[4] token of a re-check in flight or '' · ARGV[5] take 0|1 · ARGV[6] leaseMs
-- returns left
--       with take: granted token fence blockEnd waiters
${PROTOCOL_LUA}
local token, other, last, leaseMs = ARGV[3], ARGV[4], ARGV[5] == '1', ARGV[6]
local value = redis.call('GET', lock)
redis.call('ZREM', queue, token, other)
if value and (value == token or (other ~= '' and value == other)) then
  if last then
    return prolonged(value, leaseMs)
  end
  redis.call('DEL', lock)
  grantNext(nil)
  return { 'left' }
end
if last and not value and redis.call('EXISTS', queue) == 0 then
  return grant(token, leaseMs)
end
return { 'left' }
`,
);
