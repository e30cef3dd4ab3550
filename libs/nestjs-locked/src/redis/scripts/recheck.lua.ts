import { PROTOCOL_LUA } from './protocol.lua.js';
import { RedisScript } from './redis-script.js';

/** A waiter looks again: a new token takes the place of the old one, even if the old one was dropped from the queue. */
export const recheckScript = new RedisScript(
  'recheck',
  `
-- KEYS lock, queue, fence, lapsed · ARGV inbox prefix, acceptMs, fenceKeepMs
-- ARGV[4] token · ARGV[5] new token · ARGV[6] leaseMs · ARGV[7] score, for which a dropped waiter comes back to its place
-- returns granted token fence blockEnd waiters
--       | queued newToken score pttl foreign
--       | again
${PROTOCOL_LUA}
return take(ARGV[4], ARGV[5], ARGV[6], false, ARGV[7])
`,
);
