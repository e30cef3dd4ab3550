import { protocolLua } from './protocol.lua.js';
import { RedisScript } from './redis-script.js';
import { isGranted } from './script-replies.js';
import type { ScriptSettings } from './script-settings.js';

/** Re-checks a waiter's turn: a new token replaces the old one, even if that was dropped from the queue. */
export const recheckScript = (settings: ScriptSettings): RedisScript =>
  new RedisScript(
    'recheck',
    `
-- KEYS lock, queue, fence, lapsed
-- ARGV[1] token · ARGV[2] new token · ARGV[3] leaseMs · ARGV[4] score, for which a dropped waiter comes back to its place
-- ARGV[5] the first waiter if it is silent, missing otherwise
-- returns granted token fence blockEnd waiters
--       | queued newToken score pttl foreign
--       | again
${protocolLua(settings)}
return take(ARGV[1], ARGV[2], ARGV[3], false, ARGV[4], ARGV[5])
`,
    isGranted,
  );
