import { RedisScript } from '../redis-script.js';
import { PROTOCOL_LUA } from './protocol.lua.js';

/** Takes a free lock, or joins the queue (`nowait`: neither joins it nor overtakes it). */
export const acquireScript = new RedisScript(
  'acquire',
  `
-- KEYS lock, queue, fence · ARGV inbox prefix, acceptMs
-- ARGV[3] token · ARGV[4] leaseMs · ARGV[5] nowait 0|1 · ARGV[6] score kept from an earlier attempt, or ''
-- returns granted token fence blockEnd waiters
--       | queued token score pttl foreign
--       | busy pttl
${PROTOCOL_LUA}
local score = ARGV[6]
if score == '' then score = nil end
return take(ARGV[3], ARGV[3], ARGV[4], ARGV[5] == '1', score)
`,
);
