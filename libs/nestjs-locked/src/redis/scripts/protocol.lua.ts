import { FENCE_BLOCK } from '../../core/store/fence-block.js';
import { PROCESS_ID_DIGITS } from '../../core/store/lease-token.js';

/**
 * What the scripts share: the fence, the queue, and the only place where a key is given to a waiter.
 *
 * KEYS of each lock in turn: lock: plain string, the token of the lease, with PX
 *                            queue: sorted set of waiting tokens, score = arrival in microseconds of server time
 *                            fence: a fencing token that is not exceeded by any that may be in use; if it is ahead
 *                            of the clock, with the time when it was written, in microseconds of server time
 *                            lapsed: there for a while after a lease was not given back although others waited
 * ARGV[1] inbox channel prefix · ARGV[2] acceptMs, the short lease of a grant that was not asked for right now
 * ARGV[3] fenceKeepMs, how far the clock of the server may be set back without a fencing token being given twice
 *
 * Four rules hold in every function here. Redis does not undo a script that fails half-way, so what may be refused is
 * read before anything is written, and PUBLISH, which comes last, goes through pcall and is undone by hand. A waiter is
 * given the key only after PUBSUB NUMSUB has shown that its process listens. The lock never exists without an end.
 * A script looks for the living among a bounded number of the dead: it drops those, does nothing else, and answers
 * 'again'; whoever has sent it sends it again, as if it had been on its way until then.
 */
export const PROTOCOL_LUA = `
local BLOCK, QUEUE_TTL_MS, LAPSED_MS = ${FENCE_BLOCK}, 60000, 60000
local FIRST_LOOK, LOOK, MOST_DROPPED = 4, 250, 1000
local inboxPrefix, acceptMs, fenceKeepMs = ARGV[1], ARGV[2], ARGV[3]

-- The lock that all the functions are about: the first, until another one is chosen.
local lock, queue, fence, lapsed
local function choose(i) lock, queue, fence, lapsed = unpack(KEYS, 4 * i - 3, 4 * i) end
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

-- The number, and when it was written if it was ahead of the clock then.
local function stored()
  local number, at = string.match(redis.call('GET', fence) or '', '^(%d+) ?(%d*)$')
  return tonumber(number) or 0, tonumber(at) or now()
end

-- The least number that may be given out. A number ahead of the clock grows with the time, at half its speed, so that
-- the clock catches up. So what is given out after a failover is above what was given out before it and lost with it.
local function least()
  local number, at = stored()
  return number + 1 + math.floor(math.max(0, now() - at) / 2)
end

-- Without a stored number the next one comes from the clock. So a number is kept until the clock has passed it, however
-- far it is set back within fenceKeepMs; and in any case as long as the lease of its holder.
local function keep(number, leaseMs)
  local aheadMs = math.ceil((number - now()) / 1000)
  local at = aheadMs > 0 and ' ' .. text(now()) or ''
  redis.call('SET', fence, text(number) .. at, 'PX', text(math.max(aheadMs, leaseMs) + fenceKeepMs))
end

local function mint(leaseMs, above)
  local first = math.max(above or least(), now())
  keep(first + BLOCK, tonumber(leaseMs))
  return text(first), text(first + BLOCK)
end

local function inboxOf(token) return inboxPrefix .. string.sub(token, 1, ${PROCESS_ID_DIGITS}) end

local function isOurs(value) return string.find(value, '^%x+:%d+$') ~= nil and string.find(value, ':', 1, true) == 33 end

local function foreign(value)
  return (isOurs(value) or string.find(value, '^kept:') or string.find(value, '^revoked:')) and 0 or 1
end

local function tell(token, kind, ...)
  local message = table.concat({ kind, token, ... }, ' ') .. ' ' .. string.match(lock, '{([^{}]*)}$')
  return type(redis.pcall('PUBLISH', inboxOf(token), message)) == 'number'
end

local function askFor(value)
  if isOurs(value) then tell(value, 'w') end
end

-- Tells a waiter that the lock before it ends after so long, unless that is prolonged.
local function tellNext(waiter, ms)
  if waiter then tell(waiter.token, 'h', ms) end
end

local function waiters()
  local count = redis.pcall('ZCARD', queue)
  return type(count) == 'number' and count or 0
end

local function join(token, score)
  if not score then
    local last = redis.call('ZREVRANGE', queue, 0, 0, 'WITHSCORES')
    score = math.max(now(), (tonumber(last[2]) or 0) + 1)
  end
  redis.call('ZADD', queue, text(score), token)
  redis.call('PEXPIRE', queue, QUEUE_TTL_MS)
  return score
end

-- The fence comes first: if it cannot be written, the lock must not be. 'above' is the least number, if that is known.
local function give(token, ms, above)
  local first, last = mint(ms, above)
  redis.call('SET', lock, token, 'PX', ms)
  return first, last
end

local function granted(token, first, last) return { 'granted', token, first, last, waiters() } end

local function grant(token, leaseMs, above) return granted(token, give(token, leaseMs, above)) end

local function prolong(leaseMs)
  local ms = math.max(redis.call('PTTL', lock), tonumber(leaseMs))
  redis.call('PEXPIRE', lock, text(ms))
  return ms
end

-- The lock is mine already: its grant, or the reply to an earlier try, has not reached me.
local function prolonged(token, leaseMs) return granted(token, mint(prolong(leaseMs))) end

local function queued(token, score, ms, isForeign)
  return { 'queued', token, text(score), ms, isForeign }
end

local function busy(value) return { 'busy', redis.call('PTTL', lock), value and foreign(value) or 0 } end

-- The token in the lock, false if it is free. A key of another type is somebody else's.
local function holder()
  local value = redis.pcall('GET', lock)
  if type(value) ~= 'table' then return value end
  return string.find(value.err, 'WRONGTYPE', 1, true) and '' or error(value.err)
end

-- The first two waiters whose processes listen, my own two tokens aside; drops the dead that stand before them.
-- The second result is true if only dead ones were seen, and there are more to look at.
local dropped = 0
local function living(mine, alsoMine)
  local live, from, size = {}, 0, FIRST_LOOK
  while true do
    local entries = redis.call('ZRANGE', queue, from, from + size - 1, 'WITHSCORES')
    if #entries == 0 then return live end
    local inboxes, dead = {}, {}
    for i = 1, #entries, 2 do inboxes[#inboxes + 1] = inboxOf(entries[i]) end
    local listeners = redis.call('PUBSUB', 'NUMSUB', unpack(inboxes))
    for i = 1, #entries, 2 do
      local token = entries[i]
      if #live == 2 then break end
      if listeners[i + 1] == 0 and token ~= mine and token ~= alsoMine then
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
    if dropped >= MOST_DROPPED then return live, #live == 0 end
    size = LOOK
  end
end

-- For the holder, who can give the lock back whatever the queue has become.
local function heirs()
  local isReadable, live, isMore = pcall(living)
  if isReadable then return live, isMore end
  return {}
end

-- Gives the free lock to a waiter who listens, and tells the next one. False: it cannot be told, the lock stays free.
local function handTo(waiter, nextWaiter, above)
  local first, last = give(waiter.token, acceptMs, above)
  if not tell(waiter.token, 'g', first, last, waiters() - 1, acceptMs) then
    redis.call('DEL', lock)
    return false
  end
  redis.call('ZREM', queue, waiter.token)
  tellNext(nextWaiter, acceptMs)
  return true
end

-- Hands the free lock to those who stand before me. I stand in the queue with this score.
local function yield(me, score, live, above)
  local ms = handTo(live[1], live[2], above) and redis.call('PTTL', lock) or 25
  return queued(me, score, ms, 0)
end

-- The lock is free although there is a queue: the last lease was not given back.
local function noticeLapse() redis.call('SET', lapsed, '1', 'PX', LAPSED_MS) end

-- Who is not in the queue any more comes back to its place: it was passed over while its process did not listen. Unless
-- leases have lapsed: it may have had its turn and not noticed, and a few such processes would keep all the others out.
local function placeOf(token, keptScore)
  local score = redis.call('ZSCORE', queue, token)
  if not score and keptScore ~= '' and redis.call('EXISTS', lapsed) == 0 then score = keptScore end
  return tonumber(score)
end

-- Takes the lock for 'me', or a place in the queue. 'old' is the token I waited with before, or me.
local function take(old, me, leaseMs, nowait, keptScore)
  local value = redis.call('GET', lock)
  if value and (value == me or value == old) then return prolonged(value, leaseMs) end
  if not value and redis.call('EXISTS', queue) == 0 then return grant(me, leaseMs) end
  if value and nowait then
    askFor(value)
    return busy(value)
  end
  local score = not nowait and placeOf(old, value and keptScore or '') or nil
  if value then
    redis.call('ZREM', queue, old)
    score = join(me, score)
    askFor(value)
    return queued(me, score, redis.call('PTTL', lock), foreign(value))
  end
  local live, isMore = living(old, me)
  if isMore then return { 'again' } end
  noticeLapse()
  if not live[1] or (score and score <= live[1].score) then
    redis.call('ZREM', queue, old, me)
    return grant(me, leaseMs)
  end
  if nowait then
    handTo(live[1], live[2])
    return busy()
  end
  redis.call('ZREM', queue, old)
  return yield(me, join(me, score), live)
end
`;
