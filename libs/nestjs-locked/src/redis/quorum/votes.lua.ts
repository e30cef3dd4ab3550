import { PROCESS_ID_DIGITS } from '../../core/store/lease-token.js';

/** What is written into the scripts of a quorum. */
export interface VoteSettings {
  /** Precedes a process id in the name of its inbox. */
  readonly inboxPrefix: string;
  /** How long a fence is kept after the clock of its node has passed it, in milliseconds. */
  readonly fenceKeepMs: number;
  /** A node that runs for less than this gives no vote: it may have forgotten one. In milliseconds; 0 = it may. */
  readonly youngMs: number;
}

/**
 * How many fencing numbers a vote reserves: microseconds of the clock, so the clocks of the nodes may be apart by about
 * a second before a lease needs another round trip.
 */
export const VOTED_NUMBERS = 1_000_000;

/** How long only the waiter that was told may take a key that was released. */
const TURN_MS = 100;

/** A place in line does not count as older than this, so that a clock that is far behind does not always come first. */
const OLDEST_MICROS = 600_000_000;

/** The round of a lease that was renewed: all rounds of its request have ended. */
const LAST_ROUND = 1_000_000;

/** How long a queue is kept to which nobody comes. */
const QUEUE_TTL_MS = 60_000;

/**
 * The shared part of the scripts of a quorum. Each node has, for each lock:
 *
 * KEYS lock: plain string with PX: the token that has the vote of this node; `kept:<token>` while nobody may have it;
 *      `turn:<place>` for a moment after a release, when only that waiter may take it
 *      queue: sorted set of the places of those that wait, score = since when, in microseconds of their own clocks
 *      fence: a number that none in use exceeds which this node has voted for, the one before the present vote, below
 *      which nothing takes it back, and the round of the present vote
 *
 * Three rules hold in every script. The fence is written before the lock, so that no vote exists without its numbers.
 * What may be refused is read before anything is written. The lock never exists without expiry.
 */
export const votesLua = ({ inboxPrefix, fenceKeepMs, youngMs }: VoteSettings): string => `
local NUMBERS, TURN_MS, OLDEST, QUEUE_TTL_MS = ${VOTED_NUMBERS}, ${TURN_MS}, ${OLDEST_MICROS}, ${QUEUE_TTL_MS}
local LAST_ROUND = ${LAST_ROUND}
local keepMs, youngMs = ${fenceKeepMs}, ${youngMs}
local call = redis.call
local lock, queue, fence
local function choose(i) lock, queue, fence = unpack(KEYS, 3 * i - 2, 3 * i) end
choose(1)

local function text(number) return string.format('%.0f', number) end
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

-- The clock of a server tells its age in whole seconds, of which the first may have just begun.
local function isYoung()
  if youngMs == 0 then return false end
  local info = call('INFO', 'server')
  local _, at = string.find(info, 'uptime_in_seconds:', 1, true)
  return tonumber(string.match(info, '^%-?%d+', at + 1)) * 1000 < youngMs + 1000 -- less than 0 if its clock was set back
end

local function fences()
  local last, floor, round = string.match(call('GET', fence) or '', '^(%d+) ?(%d*) ?(%d*)$')
  return tonumber(last) or 0, tonumber(floor) or tonumber(last) or 0, tonumber(round) or 0
end

-- A command may arrive long after it was sent. What is left of an earlier round must not take the vote of a later one.
local function isOfLaterRound(round)
  local isRead, _, _, latest = pcall(fences)
  return isRead and latest > tonumber(round)
end

-- Kept until the clock of this node has passed it, even if that is set back, and never for less than a lease.
local function keep(last, floor, round, leaseMs)
  if last > 9007199254740991 then error('the fencing number ' .. text(last) .. ' is one that no clock has reached', 0) end
  local ms = math.max(math.ceil((last - now) / 1000), tonumber(leaseMs)) + keepMs
  call('SET', fence, text(last) .. ' ' .. text(floor) .. ' ' .. text(round), 'PX', text(math.max(1, ms)))
end

local function inboxOf(token) return '${inboxPrefix}' .. string.sub(token, 1, ${PROCESS_ID_DIGITS}) end
local function tell(token, kind, ...)
  local message = table.concat({ kind, token, ... }, ' ') .. ' ' .. string.match(lock, '{([^{}]*)}$')
  redis.pcall('PUBLISH', inboxOf(token), message)
end

local function isOurs(value) return string.find(value, '^%x+:%d+') ~= nil and string.find(value, ':', 1, true) == ${PROCESS_ID_DIGITS + 1} end
local function isForeign(value)
  if isOurs(value) or string.find(value, '^kept:') or string.find(value, '^revoked:') or string.find(value, '^turn:') then return 0 end
  return 1
end

local function others() return redis.call('ZCARD', queue) end

-- A place that was there keeps its score. The clock of a process is advice, and cannot put it before everybody.
local function scoreOf(score) return math.min(now, math.max(now - OLDEST, tonumber(score))) end
local function join(place, score)
  score = scoreOf(score)
  call('ZADD', queue, 'NX', text(score), place)
  call('PEXPIRE', queue, QUEUE_TTL_MS)
end

-- The first in line whose process listens here; the others before it lose their places.
local function firstLive()
  while true do
    local entries, places, scores, inboxes, dead = call('ZRANGE', queue, 0, 49, 'WITHSCORES'), {}, {}, {}, {}
    if not entries[1] then return nil end
    for i = 1, #entries, 2 do
      places[#places + 1], scores[#scores + 1], inboxes[#inboxes + 1] = entries[i], entries[i + 1], inboxOf(entries[i])
    end
    local listeners = redis.pcall('PUBSUB', 'NUMSUB', unpack(inboxes))
    local found, score
    for i, place in ipairs(places) do
      if listeners[2 * i] == 0 then dead[#dead + 1] = place
      else found, score = place, tonumber(scores[i]) break end
    end
    if dead[1] then call('ZREM', queue, unpack(dead)) end
    if found or #places < 50 or not dead[1] then return found, score end
  end
end

-- The first in line may take the key now, and for a moment nobody else. It comes back to its place when it asks.
local function giveTurn()
  local place = firstLive()
  if not place then return '' end
  call('ZREM', queue, place)
  call('SET', lock, 'turn:' .. place, 'PX', TURN_MS)
  tell(place, 'h', '0')
  return place
end
`;
