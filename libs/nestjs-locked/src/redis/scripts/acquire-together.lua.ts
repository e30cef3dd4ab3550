import { protocolLua } from './protocol.lua.js';
import { RedisScript } from './redis-script.js';
import { isGranted } from './script-replies.js';
import type { ScriptSettings } from './script-settings.js';

/**
 * Takes several locks if all of them are free and none has a live waiter ahead. Otherwise takes none, and reports which
 * were taken.
 *
 * The first loop only reads, and decides for all locks; the second one writes. Redis does not undo a script that fails
 * half-way, so a single loop that took each lock in passing might leave some of them taken. A lock that its token has
 * already counts as free, because the command may have been sent twice. If another of the locks was lost in between,
 * the answer is the same for all of them, and the lock is given up.
 */
export const acquireTogetherScript = (settings: ScriptSettings): RedisScript =>
  new RedisScript(
    'acquire-together',
    `
-- KEYS lock, queue, fence, lapsed of each lock in turn
-- ARGV[1] leaseMs · then the token for each lock
-- returns granted, and for each lock { fence, blockEnd }
--       | busy, and for each lock { pttl, foreign }, or {} = this one was free
--       | again
${protocolLua(settings)}
local leaseMs, replies = ARGV[1], { 'granted' }
local holders, waiting, heirsOf, numbers = {}, {}, {}, {}

-- Except for dropping dead waiters, everything is decided before anything is written.
for i = 1, #KEYS / 4 do
  choose(i)
  local value, isMore = redis.call('GET', lock), false
  holders[i] = value
  if value ~= ARGV[1 + i] then
    if not value and redis.call('EXISTS', queue) == 1 then
      waiting[i], isMore = living()
      if isMore then return { 'again' } end
    end
    if value or (waiting[i] and waiting[i][1]) then replies[1] = 'busy' end
  else
    heirsOf[i], isMore = heirs()
    if isMore then return { 'again' } end
  end
  numbers[i] = least()
end

for i = 1, #KEYS / 4 do
  choose(i)
  local token, value, reply = ARGV[1 + i], holders[i], {}
  if waiting[i] then noticeLapse() end
  if replies[1] == 'granted' then
    if value then reply = { mint(prolong(value, token, leaseMs), numbers[i], 0) } else reply = { give(token, leaseMs, numbers[i], 0) } end
  elseif value == token then -- sent twice, with another lock lost in between: keep none
    local live = heirsOf[i]
    writeDespiteLack()
    if live[1] then passOn(token, handTo, live[1], live[2]) else redis.call('DEL', lock) end
  elseif value then
    askFor(value)
    reply = { redis.call('PTTL', lock), foreign(value) }
  elseif waiting[i] and waiting[i][1] then
    handTo(waiting[i][1], waiting[i][2])
    reply = { redis.call('PTTL', lock), 0 }
  end
  replies[i + 1] = reply
end
return replies
`,
    isGranted,
  );
