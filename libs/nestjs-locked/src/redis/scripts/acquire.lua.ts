import { PROTOCOL_LUA } from './protocol.lua.js';
import { RedisScript } from './redis-script.js';

/** Takes a free lock, or joins the queue. With `nowait`, it neither joins the queue nor overtakes it. */
export const acquireScript = new RedisScript(
  'acquire',
  `
-- KEYS lock, queue, fence, lapsed · ARGV inbox prefix, acceptMs, fenceKeepMs
-- ARGV[4] token · ARGV[5] leaseMs · ARGV[6] nowait 0|1 · ARGV[7] score kept from an earlier attempt, or ''
-- returns granted token fence blockEnd waiters
--       | queued token score pttl foreign
--       | busy pttl foreign
--       | again
${PROTOCOL_LUA}
return take(ARGV[4], ARGV[4], ARGV[5], ARGV[6] == '1', ARGV[7])
`,
);
