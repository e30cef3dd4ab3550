import { protocolLua } from './protocol.lua.js';
import { RedisScript } from './redis-script.js';
import { isGranted } from './script-replies.js';
import type { ScriptSettings } from './script-settings.js';

/** The last try at the end of a wait: takes the lock if it is free or already the waiter's, and leaves the queue. */
export const leaveScript = (settings: ScriptSettings): RedisScript =>
  new RedisScript(
    'leave',
    `
-- KEYS lock, queue, fence, lapsed
-- ARGV[1] token · ARGV[2] token of a re-check in flight or '' · ARGV[3] leaseMs
-- returns granted token fence blockEnd waiters | left | again
${protocolLua(settings)}
local token, other, leaseMs = ARGV[1], ARGV[2], ARGV[3]
local value = leaveQueue(token, other)
local mine = value and mineOf(value, token, other)
if mine then return prolonged(value, mine, leaseMs) end
if value and not areJoint(value) then
  passBy(value)
  return { 'left' }
end
local live, isMore = living()
if isMore then return { 'again' } end
local holders, slot = besides(value, token)
if (not value or holders) and isTurnOf(token, live[1]) then
  local first, last, its = give(token, leaseMs, nil, nil, holders, slot)
  letInBeside(token)
  return granted(token, first, last, its)
end
if value then
  letIn()
  return { 'left' }
end
noticeLapse()
handTo(live[1], live[2])
return { 'left' }
`,
    isGranted,
  );
