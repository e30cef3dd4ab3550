import { RedisScript } from '../redis-script.js';
import { PROTOCOL_LUA } from './protocol.lua.js';

/** A waiter looks again: a new token takes the old one's place, also if that was dropped from the queue. */
export const recheckScript = new RedisScript(
  'recheck',
  `
-- KEYS lock, queue, fence · ARGV inbox prefix, acceptMs
-- ARGV[3] token · ARGV[4] new token · ARGV[5] leaseMs · ARGV[6] score
-- returns granted token fence blockEnd waiters
--       | queued newToken score pttl foreign
${PROTOCOL_LUA}
return take(ARGV[3], ARGV[4], ARGV[5], false, ARGV[6])
`,
);
