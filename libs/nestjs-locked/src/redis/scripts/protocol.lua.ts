/**
 * What the scripts share: the fence, the queue, and the only place where a key is given to a waiter.
 *
 * KEYS[1] lock: plain string, the token of the lease, with PX
 * KEYS[2] queue: sorted set of waiting tokens, score = arrival in microseconds of server time
 * KEYS[3] fence: highest fencing token that may be in use
 * ARGV[1] inbox channel prefix · ARGV[2] acceptMs, the short lease of a grant that was not asked for right now
 *
 * Three rules hold in every function here. Redis does not undo a script that fails half-way, so whatever may be
 * refused (PUBLISH, by channel rights) goes through pcall and is undone by hand. A waiter is given the key only
 * after PUBSUB NUMSUB has shown that its process listens. The lock never exists without an end.
 */
export const PROTOCOL_LUA = `
local lock, queue, fence = KEYS[1], KEYS[2], KEYS[3]
local inboxPrefix, acceptMs = ARGV[1], ARGV[2]
local BLOCK, DAY_MS, QUEUE_TTL_MS = 1000000, 86400000, 60000
local name = string.match(lock, '{([^{}]*)}$')

local function text(number) return string.format('%.0f', number) end

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local function mint()
  local stored = tonumber(redis.call('GET', fence) or '0') or 0
  local first = math.max(stored + 1, now())
  redis.call('SET', fence, text(first + BLOCK), 'PX', DAY_MS)
  return first
end

local function inboxOf(token) return inboxPrefix .. string.sub(token, 1, 32) end

local function isOurs(value) return string.find(value, '^%x+:%d+$') ~= nil and string.find(value, ':', 1, true) == 33 end

local function tell(token, message)
  local reply = redis.pcall('PUBLISH', inboxOf(token), message)
  return type(reply) == 'number'
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

-- The fence comes first: if it cannot be written, the lock must not be.
local function give(token, ms)
  local first = mint()
  redis.call('SET', lock, token, 'PX', ms)
  return text(first), text(first + BLOCK)
end

local function grant(token, leaseMs)
  local first, last = give(token, leaseMs)
  return { 'granted', token, first, last, redis.call('ZCARD', queue) }
end

-- The lock is mine already: its grant, or the reply to an earlier try, has not reached me.
local function prolonged(token, leaseMs)
  return grant(token, text(math.max(redis.call('PTTL', lock), tonumber(leaseMs))))
end

local function queued(token, score, ms, foreign)
  return { 'queued', token, text(score), ms, foreign }
end

-- Tells the first in the queue when the lock before it ends, unless that is prolonged.
local function tellHead(ms)
  local token = redis.call('ZRANGE', queue, 0, 0)[1]
  if token then tell(token, table.concat({ 'h', token, ms, name }, ' ')) end
end

-- The lock is free. Gives it to the first live waiter; 'self' if that is me.
local function grantNext(me)
  for _ = 1, 64 do
    local head = redis.call('ZPOPMIN', queue)
    local token, score = head[1], head[2]
    if not token then return 'nobody' end
    if token == me then return 'self' end
    if redis.call('PUBSUB', 'NUMSUB', inboxOf(token))[2] > 0 then
      local first, last = give(token, acceptMs)
      local waiters = redis.call('ZCARD', queue)
      if not tell(token, table.concat({ 'g', token, first, last, waiters, acceptMs, name }, ' ')) then
        redis.call('DEL', lock)
        join(token, tonumber(score))
        return 'broken'
      end
      tellHead(acceptMs)
      return 'other'
    end
  end
  return 'again'
end

-- Hands the free lock to the first live waiter, who may be me, standing in the queue with this score.
local function compete(me, score, leaseMs)
  local outcome = grantNext(me)
  if outcome == 'self' or outcome == 'nobody' then
    redis.call('ZREM', queue, me)
    return grant(me, leaseMs)
  end
  if outcome == 'other' then return queued(me, score, redis.call('PTTL', lock), 0) end
  return queued(me, score, 25, 0)
end

-- Takes the lock for 'me', or a place in the queue. 'old' is the token I waited with before, or me.
local function take(old, me, leaseMs, nowait, keptScore)
  local value = redis.call('GET', lock)
  if not value and redis.call('EXISTS', queue) == 0 then return grant(me, leaseMs) end
  if value == me or value == old then return prolonged(value, leaseMs) end
  if nowait then
    if value then
      if isOurs(value) then tell(value, 'w ' .. value .. ' ' .. name) end
    elseif grantNext(nil) == 'nobody' then
      return grant(me, leaseMs) -- those who stood in the queue are gone
    end
    return { 'busy', redis.call('PTTL', lock) }
  end
  local score = tonumber(redis.call('ZSCORE', queue, old) or keptScore)
  redis.call('ZREM', queue, old)
  score = join(me, score)
  if not value then return compete(me, score, leaseMs) end
  local foreign = 0
  if isOurs(value) then
    tell(value, 'w ' .. value .. ' ' .. name)
  elseif not (string.find(value, '^kept:') or string.find(value, '^revoked:')) then
    foreign = 1
  end
  return queued(me, score, redis.call('PTTL', lock), foreign)
end
`;
