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
local readers = readersOf(value)
if value and not readers then return { 'left' } end
local live, isMore = living()
if isMore then return { 'again' } end
local headReads = live[1] and isReader(live[1].token)
if isReader(token) and (headReads or not live[1]) then
  local first, last = give(token, leaseMs, nil, nil, readers)
  admitReaders()
  return granted(token, first, last)
end
if readers then
  if headReads then admitReaders() end
  return { 'left' }
end
if not live[1] then return grant(token, leaseMs) end
noticeLapse()
handTo(live[1], live[2])
return { 'left' }
`,
    isGranted,
  );
