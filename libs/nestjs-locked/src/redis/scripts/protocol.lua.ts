import { PROCESS_ID_DIGITS } from '../../core/store/lease-token.js';
import { fenceLua } from './fence.lua.js';
import { holdersLua, marksLua } from './holders.lua.js';
import type { ScriptSettings } from './script-settings.js';

/**
 * The shared part of the scripts: the fence, the queue, and the only place where a key is granted to a waiter. What a
 * script uses but does not define, such as `lock`, `heirs` and `tell`, is defined here.
 *
 * KEYS of each lock in turn: lock: plain string, the token of the lease, with PX, or all that have it together (see
 *                            `holdersLua`)
 *                            queue: sorted set of waiting tokens, score = arrival in microseconds of server time
 *                            fence: a fencing token that no token in use exceeds, the same key for all locks unless
 *                            they may be on different servers; if it is ahead of the clock, followed by the time when
 *                            it was written, in microseconds of server time
 *                            lapsed: exists for a while after a lease was not released although others waited
 *
 * Readers have the lock together. One that comes joins them if nobody waits; otherwise it waits behind, so that no
 * writer starves. The turn of one reader is the turn of all that wait, so that no reader does either.
 *
 * Five rules hold in every function here:
 *
 * - Redis does not roll back a script that fails half-way. So everything that may be refused is read before anything is
 *   written. PUBLISH comes last, through pcall, and a grant that cannot be published is undone explicitly.
 * - A waiter gets the key only if PUBSUB NUMSUB shows that its process listens, or if its token says that it polls many
 *   times a second because it cannot listen. Otherwise the key could go to a dead process and stay with it until its
 *   lease ends. A polling waiter finds the grant at its next poll; if it has died, it delays the others by at most
 *   LOOK_LEASE_MS, once, because it leaves the queue with its grant.
 * - If the server refuses to report listeners, every waiter counts as live: a dead one delays the others by acceptMs,
 *   once. If the queue cannot be read, a holder still releases the lock, but never to itself.
 * - The lock never exists without expiry: it is always written with PX.
 * - A script examines a bounded number of dead waiters in search of a live one. If there are more, it drops those it
 *   has seen, does nothing else, and answers 'again'. Its sender then sends it again, as if it had been in flight until
 *   then.
 */
export const protocolLua = (settings: ScriptSettings): string => `
local QUEUE_TTL_MS, LAPSED_MS = 60000, 60000
local FIRST_LOOK, LOOK, MOST_DROPPED = 4, 250, 1000
local LOOK_AGAIN_MS, LOOK_LEASE_MS = 50, 1000
local inboxPrefix = ${luaString(settings.inboxPrefix)}
local acceptMs = '${settings.acceptMs}'

-- The lock on which all functions operate: the first one until another is chosen.
local lock, queue, fence, lapsed
-- How many dead waiters were removed so far, and how many of them from the queues of other locks.
local dropped, droppedElsewhere = 0, 0
local function choose(i)
  lock, queue, fence, lapsed = unpack(KEYS, 4 * i - 3, 4 * i)
  droppedElsewhere = dropped
end
choose(1)

local function text(number) return string.format('%.0f', number) end

local micros
local function now()
  if not micros then
    local time = redis.call('TIME')
    micros = time[1] * 1000000 + time[2]
  end
  return micros
end
local function nowMs() return math.floor(now() / 1000) end
${holdersLua}
${marksLua}

${fenceLua(settings)}
${settings.inCluster ? "local node = '@' .. redis.call('CLUSTER', 'MYID')" : ''}
local function inboxOf(token) return inboxPrefix .. string.sub(token, 1, ${PROCESS_ID_DIGITS})${settings.inCluster ? ' .. node' : ''} end

-- The process, the count and perhaps a label, separated by colons.
local function isOurs(value)
  return string.find(value .. ':', '^%x+:%d+[sp]?[%d/]*:') ~= nil and string.find(value, ':', 1, true) == 33
end

-- No messages reached the process of this token when it introduced it, so it polls.
local function looksItself(token) return string.sub(token, ${PROCESS_ID_DIGITS + 2}, ${PROCESS_ID_DIGITS + 2}) == '0' end

-- As markOf, of all that have the lock; nil if it is free, or if somebody else than a call of ours has it.
local function markIn(value)
  if not value then return nil end
  if isOurs(value) then return markOf(value) end
  return string.match(value, '^shared %d+:%x+:%d+(s)') or string.match(value, '^permits %d+/%d+:%x+:%d+(p)')
end

-- Whether those that have the lock may have it together with others.
local function areJoint(value) return markIn(value) == 's' or markIn(value) == 'p' end

-- Whether the lock stays taken for a moment although nobody has it.
local function isNobodys(value) return string.find(value, '^kept:') or string.find(value, '^revoked:') end

local function foreign(value)
  if isOurs(value) or isNobodys(value) then return 0 end
  return markIn(value) and 0 or 1
end

-- Those that have the lock, as one of several; the slot of a permit that has it alone is 0.
local function asSeveral(value)
  if not isOurs(value) then return value end
  local ends = nowMs() + redis.call('PTTL', lock)
  return isReader(value) and 'shared' .. entry(ends, nil, value) or 'permits' .. entry(ends, 0, value)
end

-- Whether they let in this one beside them: the value without those whose time is over and, for a permit, the least slot
-- that none of them has. As long as they fit, it is less than their number.
local function besides(value, token)
  local mark = markOf(token)
  if mark == '' or mark ~= markIn(value) then return nil end
  local taken, most = permitsOf(token)
  local slot, areTaken, ms, isOver = mark == 'p' and 0 or nil, {}, nowMs(), false
  value = asSeveral(value)
  for ends, its, weight in string.gmatch(value, ' (%d+)/?(%d*):%x+:%d+[sp](%d*)%S*') do
    if tonumber(ends) <= ms then
      isOver = true
    elseif slot then
      taken, areTaken[tonumber(its)] = taken + weight, true
    end
  end
  if isOver then value = present(value, ms) end
  while areTaken[slot] do slot = slot + 1 end
  if not slot or taken <= most then return value, slot end
end

-- Whether this token has the lock, perhaps together with others.
local function has(value, token)
  if not value or value == token then return value == token end
  if markOf(token) == '' then return false end
  return entryOf(value, token, nowMs()) ~= nil
end

-- Which of the two tokens of a waiter has the lock; nil if neither.
local function mineOf(value, token, other)
  if has(value, token) then return token end
  return other ~= '' and has(value, other) and other or nil
end

-- Returns how many have heard it, or false if the server refuses.
local function tell(token, kind, ...)
  local message = table.concat({ kind, token, ... }, ' ') .. ' ' .. string.match(lock, '{([^{}]*)}$')
  local heard = redis.pcall('PUBLISH', inboxOf(token), message)
  return type(heard) == 'number' and heard
end

-- A permit is given back after each call, so nobody need be asked for it.
local function askFor(value)
  if markIn(value) == 'p' then return end
  if isOurs(value) then return tell(value, 'w') end
  for i, holder in ipairs(holdersIn(value, nowMs())) do
    if i <= LOOK then tell(holder.token, 'w') end
  end
end

-- Tells a waiter how long the lease ahead of it lasts unless prolonged.
local function tellNext(waiter, ms)
  if waiter then tell(waiter.token, 'h', ms) end
end

-- The same for whoever is first in the queue now.
local function tellFirst()
  local first = redis.pcall('ZRANGE', queue, 0, 0)[1]
  if first then tell(first, 'h', text(redis.call('PTTL', lock))) end
end

local function waiters()
  local count = redis.pcall('ZCARD', queue)
  return type(count) == 'number' and count or 0
end

-- A server out of memory accepts further commands after a write that needs no memory, such as this one, which has no
-- effect.
local function writeDespiteLack() redis.pcall('ZREM', queue, '') end

-- 'old' leaves the queue last: it may be the only entry, and a deleted key must not be accessed (see passOn).
local function join(token, score, old)
  if old then writeDespiteLack() end
  if not score then
    local last = redis.call('ZREVRANGE', queue, 0, 0, 'WITHSCORES')
    score = math.max(now(), (tonumber(last[2]) or 0) + 1)
  end
  redis.call('ZADD', queue, text(score), token)
  redis.call('PEXPIRE', queue, QUEUE_TTL_MS)
  if old and old ~= token then redis.call('ZREM', queue, old) end
  return score
end

-- The fence is written first: if that fails, the lock must not be written either. 'above' is the least number to issue,
-- if already known to the script; 'more' is how many are reserved after it. 'holders' and 'slot' are what 'besides' says.
-- The third result is the slot, if it is not 0.
local function give(token, ms, above, more, holders, slot)
  local first, last = mint(ms, above, more)
  if holders then
    addHolders(lock, holders, entry(nowMs() + ms, slot, token), tonumber(ms))
  else
    redis.call('SET', lock, token, 'PX', ms)
  end
  return first, last, slot ~= 0 and slot or nil
end

local function granted(token, first, last, slot)
  return { 'granted', token, first, last, waiters(), slot and '', slot }
end

local function grant(token, leaseMs, above, more) return granted(token, give(token, leaseMs, above, more)) end

-- Precondition: the token has the lock.
local function prolong(value, token, leaseMs)
  if value ~= token then return prolongHolder(lock, value, token, tonumber(leaseMs), nowMs()) end
  local ms = math.max(redis.call('PTTL', lock), tonumber(leaseMs))
  redis.call('PEXPIRE', lock, text(ms))
  return ms
end

-- The lock already belongs to the sender: its grant, or the reply to an earlier attempt, has not arrived.
local function prolonged(value, token, leaseMs)
  local _, _, _, slot = entryOf(value, token, nowMs())
  local first, last = mint(prolong(value, token, leaseMs))
  return granted(token, first, last, slot ~= 0 and slot or nil)
end

-- With 'head', while others have the lock that may have it together, and another waiter is the first: its token. With
-- 'most', while others have permits who count another number of them than this one: that number.
local function queued(token, score, ms, isForeign, head, most)
  return { 'queued', token, text(score), ms, isForeign, (head or most) and '', head or most and '', most }
end

local function busy(value) return { 'busy', redis.call('PTTL', lock), value and foreign(value) or 0 } end

-- The token in the lock, or false if the lock is free. A key of another type belongs to another client.
local function holder()
  local value = redis.pcall('GET', lock)
  if type(value) ~= 'table' then return value end
  return string.find(value.err, 'WRONGTYPE', 1, true) and '' or error(value.err)
end

-- Removes a waiter's one or two tokens from the queue, and returns the token in the lock, or false.
local function leaveQueue(token, other)
  redis.pcall('ZREM', queue, token, other)
  return holder()
end

-- The first two waiters whose processes listen, except the sender's own two tokens. Drops the dead waiters ahead of
-- them. The second result is true if there are more to examine, and only dead waiters were found, or other locks have
-- used up what this one may examine.
--
-- Two, because one gets the lock and the other is told when to re-check. First a handful is examined, which is usually
-- enough, then larger portions, so that a long queue of dead waiters takes few commands.
local function living(mine, alsoMine)
  local live, from, size = {}, 0, FIRST_LOOK
  while true do
    local entries = redis.call('ZRANGE', queue, from, from + size - 1, 'WITHSCORES')
    if #entries == 0 then return live end
    local inboxes, dead = {}, {}
    for i = 1, #entries, 2 do inboxes[#inboxes + 1] = inboxOf(entries[i]) end
    local listeners = redis.pcall('PUBSUB', 'NUMSUB', unpack(inboxes))
    for i = 1, #entries, 2 do
      local token = entries[i]
      if #live == 2 then break end
      if listeners[i + 1] == 0 and token ~= mine and token ~= alsoMine and not looksItself(token) then
        dead[#dead + 1] = token
      else
        from = from + 1
        if token ~= mine and token ~= alsoMine then
          live[#live + 1] = { token = token, score = tonumber(entries[i + 1]) }
        end
      end
    end
    if #dead > 0 then redis.call('ZREM', queue, unpack(dead)) end
    dropped = dropped + #dead
    if #live == 2 or #entries < 2 * size then return live end
    if dropped >= MOST_DROPPED then return live, #live == 0 or droppedElsewhere > 0 end
    size = LOOK
  end
end

-- The same for the holder, which can release the lock even if the queue cannot be read. The third result is the reason
-- why the waiters are unknown. A key of another type has none.
local function heirs()
  local isReadable, live, isMore = pcall(living)
  if isReadable then return live, isMore end
  local reason = type(live) == 'table' and live.err or tostring(live)
  return {}, false, not string.find(reason, 'WRONGTYPE', 1, true) and reason or nil
end

-- How long a waiter has the lock unless it accepts.
local function acceptFor(token)
  return looksItself(token) and text(math.min(tonumber(acceptMs), LOOK_LEASE_MS)) or acceptMs
end

-- Tells a waiter that it has the lock. Returns how many have heard it, or false if the server refuses.
local function tellGrant(token, first, last, count, ms, slot)
  if slot then return tell(token, 'p', slot, first, last, count, ms) end
  return tell(token, 'g', first, last, count, ms)
end

-- Lets in all readers that wait and listen, and drops the others, beside those that have the lock, which is written
-- once for all. Each is told what it would have been told if it were the only one.
local function admitReaders()
  local waiting, from = {}, 0
  repeat
    local entries, inboxes = redis.call('ZRANGE', queue, from, from + LOOK - 1, 'WITHSCORES'), {}
    local page = {}
    for i = 1, #entries, 2 do
      if isReader(entries[i]) then
        page[#page + 1] = { token = entries[i], score = tonumber(entries[i + 1]) }
        inboxes[#inboxes + 1] = inboxOf(entries[i])
      end
    end
    local listeners = inboxes[1] and redis.pcall('PUBSUB', 'NUMSUB', unpack(inboxes))
    for i, waiter in ipairs(page) do
      waiter.isDead = listeners[2 * i] == 0 and not looksItself(waiter.token)
      waiting[#waiting + 1] = waiter
    end
    from = from + LOOK
  until #entries < 2 * LOOK or from >= MOST_DROPPED
  if not waiting[1] then return end
  local value, entries, longest = asSeveral(redis.call('GET', lock)), {}, 0
  local admitted, gone, untold = {}, {}, {}
  for i, waiter in ipairs(waiting) do
    gone[i] = waiter.token
    if not waiter.isDead then
      local ms = acceptFor(waiter.token)
      waiter.ms, waiter.first, waiter.last = ms, mint(ms, nil, 0)
      entries[#entries + 1] = entry(nowMs() + ms, nil, waiter.token)
      longest = math.max(longest, tonumber(ms))
      admitted[#admitted + 1] = waiter
    end
  end
  redis.call('ZREM', queue, unpack(gone))
  addHolders(lock, value, table.concat(entries), longest)
  local count = waiters()
  for _, waiter in ipairs(admitted) do
    if not looksItself(waiter.token) and not tellGrant(waiter.token, waiter.first, waiter.last, count, waiter.ms) then
      untold[#untold + 1] = waiter
    end
  end
  for _, waiter in ipairs(untold) do
    removeHolder(lock, redis.call('GET', lock), waiter.token, nowMs())
    join(waiter.token, waiter.score)
  end
end

-- Grants the lock to a waiter: the free lock, or a share in it beside its holders. Returns how long the grant lasts
-- unless accepted; false means that it could not be published, and was undone.
local function grantTo(waiter, above, holders, freeSlot)
  local ms = acceptFor(waiter.token)
  local first, last, slot = give(waiter.token, ms, above, nil, holders, freeSlot)
  if not looksItself(waiter.token) and not tellGrant(waiter.token, first, last, waiters() - 1, ms, slot) then
    if holders then removeHolder(lock, redis.call('GET', lock), waiter.token, nowMs()) else redis.call('DEL', lock) end
    return false
  end
  redis.call('ZREM', queue, waiter.token)
  return tonumber(ms)
end

-- Called when others have the lock that may have it together, and one of them or of the waiters has gone: perhaps it
-- kept others out. Nobody passes the first in the queue.
local function letIn()
  for _ = 1, LOOK do
    local live = living()
    if not live[1] then return end
    local holders, slot = besides(redis.call('GET', lock), live[1].token)
    if not holders then return end
    if not slot then return admitReaders() end
    if not grantTo(live[1], nil, holders, slot) then return end
  end
end

-- Called when a waiter has gone that did not get the lock. While nobody has it, only the first in the queue has been
-- told when it comes free.
local function passBy(value)
  if isNobodys(value) then tellFirst() elseif areJoint(value) then letIn() end
end

-- Called when a waiter has got the lock: the turn of one reader is the turn of all that wait, and there may be room for
-- more permits.
local function letInBeside(token)
  if isReader(token) then admitReaders() elseif markOf(token) == 'p' then letIn() end
end

-- Takes the lock from one of several holders. Returns whether others have it; if not, it is left with this one alone.
-- If they have it for a shorter time than this one had, whoever is first has been told a time that is too long.
local function leaveHolders(value, token)
  local othersHave, isShorter = removeHolder(lock, value, token, nowMs())
  if othersHave then
    pcall(letIn)
    if isShorter then tellFirst() end
  end
  return othersHave
end

-- Whether a waiter that stands nowhere in the queue is not behind its first: readers have their turn together.
local function isTurnOf(token, head) return not head or (isReader(token) and isReader(head.token)) end

-- Grants the free lock to a waiter, and informs the next waiter. Returns how long the grant lasts unless accepted;
-- false means that it could not be published, so the lock stays free.
local function handTo(waiter, nextWaiter, above)
  local ms = grantTo(waiter, above)
  if not ms then return false end
  if markOf(waiter.token) ~= '' then
    pcall(letInBeside, waiter.token)
    local head = redis.pcall('ZRANGE', queue, 0, 0)
    nextWaiter = head[1] and { token = head[1] }
  end
  tellNext(nextWaiter, text(ms))
  return ms
end

-- The number after the highest one that the holder has used, so that the rest of its block is not lost. nil if that is
-- unknown, or if more than its block is stored: its grant was an old message, and others had higher numbers since. nil
-- also if other locks share the fence.
local function after(used)
  if used == 0 or isShared() then return nil end
  local isReadable, number = pcall(stored)
  return not (isReadable and number > used + LARGEST_BLOCK) and used + 1 or nil
end

-- Hands the holder's lock on with this function. If that fails, the lock becomes free all the same. It is not deleted
-- first, because a server that moves a slot to another node refuses commands on keys that it no longer has.
local function passOn(token, how, ...)
  local isDone, result = pcall(how, ...)
  if isDone then return result end
  if redis.call('GET', lock) == token then redis.call('DEL', lock) end
  error(result, 0)
end

-- Releases the holder's lock: the next waiter gets it, or nobody for keepMs.
local function giveUp(token, live, used, keepMs)
  local above = after(used)
  if live[1] and keepMs == 0 then return passOn(token, handTo, live[1], live[2], above) end
  if keepMs > 0 then redis.call('SET', lock, 'kept:' .. token, 'PX', keepMs) else redis.call('DEL', lock) end
  if above then keep(used, 0) end
  tellNext(live[1], keepMs)
end

-- Hands the free lock to the waiters ahead of the sender, which is in the queue with this score. If that fails, the
-- sender re-checks after 25 ms.
local function yield(me, score, live, above)
  local ms = handTo(live[1], live[2], above) or 25
  return queued(me, score, ms, 0)
end

-- The lock is free although there is a queue, so the last lease was not released.
local function noticeLapse() redis.call('SET', lapsed, '1', 'PX', LAPSED_MS) end

-- A dropped waiter returns to its old place, because it was skipped only while its process did not listen. It does not
-- if a lease has lapsed: the waiter may have had its turn without noticing, and a few such processes would lock all
-- others out.
local function placeOf(old, me, keptScore)
  local score = redis.call('ZSCORE', queue, old)
  if not score and old ~= me then score = redis.call('ZSCORE', queue, me) end -- sent twice
  if not score and keptScore and keptScore ~= '' and redis.call('EXISTS', lapsed) == 0 then score = keptScore end
  return tonumber(score)
end

-- Takes the lock for 'me', or a place in the queue. 'old' is the sender's previous waiting token, or 'me'.
--
-- While the lock is held, the sender joins the queue, at its old place if it had one. If the lock is free, or the sender
-- only reads as its holders do, it takes the lock only if no live waiter is ahead. Otherwise, a free lock is handed to
-- the first of them; a reader takes it as well if that one is a reader.
--
-- Others keep out the readers behind them as long as readers have the lock. If the first of them is 'silent', as the
-- sender has seen, it loses its place: it re-checks no more, although its process seems to listen. It comes back to its
-- place if it lives.
local function take(old, me, leaseMs, nowait, keptScore, silent)
  local value = redis.call('GET', lock)
  local mine = value and mineOf(value, me, old)
  if mine then return prolonged(value, mine, leaseMs) end
  local isJoint = areJoint(value)
  if isJoint and silent and redis.call('ZRANGE', queue, 0, 0)[1] == silent then redis.call('ZREM', queue, silent) end
  local beside, slot = besides(value, me)
  local isTaken = value and not beside
  if not isTaken and redis.call('EXISTS', queue) == 0 then
    return granted(me, give(me, leaseMs, nil, 0, beside, slot))
  end
  if isTaken and nowait then
    askFor(value)
    return busy(value)
  end
  local score = not nowait and placeOf(old, me, value and keptScore or '') or nil
  local live, isMore = {}, false
  if not isTaken then
    live, isMore = living(old, me)
    if isMore then return { 'again' } end
    if not value then noticeLapse() end
    if isTurnOf(me, live[1]) or (score and score <= live[1].score) then
      redis.call('ZREM', queue, old, me)
      local first, last, its = give(me, leaseMs, nil, nil, beside, slot)
      letInBeside(me)
      return granted(me, first, last, its)
    end
    if nowait and beside then
      if slot then letIn() end
      askFor(value)
      return busy(value)
    end
  end
  if value then
    score = join(me, score, old)
    if slot then letIn() end
    askFor(value)
    local ms, differs = redis.call('PTTL', lock), nil
    if markIn(value) == 'p' and markOf(me) == 'p' then
      local _, most = permitsOf(me)
      for _, holder in ipairs(holdersIn(asSeveral(value), nowMs())) do
        local _, its = permitsOf(holder.token)
        ms, differs = math.min(ms, holder.ends - nowMs()), its ~= most and its or differs
      end
    end
    if looksItself(me) and redis.call('ZRANGE', queue, 0, 0)[1] == me then ms = math.min(ms, LOOK_AGAIN_MS) end
    local head = isJoint and redis.call('ZRANGE', queue, 0, 0)[1]
    return queued(me, score, ms, foreign(value), head and head ~= me and head or nil, differs)
  end
  if nowait then
    handTo(live[1], live[2])
    return busy()
  end
  return yield(me, join(me, score, old), live)
end
`;

/** A string as a Lua literal, with every byte written as a number. */
export function luaString(text: string): string {
  const bytes = [...Buffer.from(text)].map((byte) => `\\${String(byte).padStart(3, '0')}`);
  return /^[\w:.-]*$/.test(text) ? `'${text}'` : `'${bytes.join('')}'`;
}
