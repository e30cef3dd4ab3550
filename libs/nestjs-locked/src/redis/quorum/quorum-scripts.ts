import { RedisScript } from '../scripts/redis-script.js';
import { type VoteSettings, votesLua } from './votes.lua.js';

/** The scripts by which one node of a quorum gives, keeps and takes back its vote. */
export class QuorumScripts {
  readonly vote: RedisScript;
  readonly giveBack: RedisScript;
  readonly renew: RedisScript;
  readonly raise: RedisScript;
  readonly adopt: RedisScript;
  readonly undoAdopt: RedisScript;

  constructor(settings: VoteSettings) {
    const lua = votesLua(settings);
    const script = (name: string, body: string): RedisScript => new RedisScript(name, lua + body);
    this.vote = script('acquire', voteLua);
    this.giveBack = script('give back', giveBackLua);
    this.renew = script('renew', renewLua);
    this.raise = script('raise', raiseLua);
    this.adopt = script('adopt', adoptLua);
    this.undoAdopt = script('undo', undoAdoptLua);
  }

  get all(): readonly RedisScript[] {
    return Object.values(this) as RedisScript[];
  }
}

/**
 * Votes for a token if nobody has the vote and nobody waits before it, and otherwise notes its place. If somebody does,
 * it is the turn of the first in line.
 */
const voteLua = `
-- KEYS lock, queue, fence · ARGV[1] token · ARGV[2] leaseMs · ARGV[3] place, '' = it does not wait · ARGV[4] its score
-- ARGV[5] which round of its request this is
-- returns vote first last waiters | no pttl rank foreign value | young
local token, leaseMs, place, score, round = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local value = call('GET', lock)
if not value then
  local first, since = firstLive()
  if first and first ~= place and (place == '' or since < scoreOf(score)) then
    giveTurn()
    value = call('GET', lock)
  end
end
if value and value ~= token and not (place ~= '' and value == 'turn:' .. place) then
  local rank = -1
  if place ~= '' then
    join(place, score)
    rank = call('ZRANK', queue, place)
  end
  if isOurs(value) then tell(value, 'w') end
  return { 'no', call('PTTL', lock), rank, isForeign(value), value }
end
if isYoung() then return { 'young' } end
local last, floor, latest = fences()
if value ~= token then floor, latest = last, 0 end
local first = math.max(last + 1, now)
keep(first + NUMBERS, floor, math.max(latest, round), leaseMs)
call('SET', lock, token, 'PX', text(math.max(call('PTTL', lock), tonumber(leaseMs))))
if place ~= '' then call('ZREM', queue, place) end
return { 'vote', text(first), text(first + NUMBERS), others() }
`;

/**
 * Takes a vote back: of a lease that is released, of a round that was lost, or of a request that has ended. What the
 * vote reserved and nobody has used goes back with it. Without that, the numbers of the nodes would drift apart with
 * each lost round.
 */
const giveBackLua = `
-- KEYS lock, queue, fence · ARGV[1] token · ARGV[2] another token or '' · ARGV[3] highest number used, 0 = none, '' = not known
-- ARGV[4] keepMs: the key stays taken for this long · ARGV[5] 1 = it is kept even if it is free
-- ARGV[6] place, '' = not concerned · ARGV[7] its score, '' = it leaves · ARGV[8] 1 = the next in line is told
-- ARGV[9] up to which round of its request the vote is taken back, '' = in any case
-- returns 1 if it had the vote, 0 if not · the place of the waiter that was told, '' if none was
local token, other, used, keptMs, place, score = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[6], ARGV[7]
local value = call('GET', lock)
local isMine = value == token or (other ~= '' and value == other)
if isMine and ARGV[9] ~= '' then isMine = not isOfLaterRound(ARGV[9]) end
local isMyTurn = place ~= '' and score == '' and value == 'turn:' .. place
if place ~= '' and score == '' then call('ZREM', queue, place) end
if isMine or isMyTurn then
  call('DEL', lock) -- needs no memory, and a server that lacks it accepts the others after it
  if isMine and used ~= '' then
    local isRead, _, floor = pcall(fences)
    if isRead then pcall(keep, math.max(tonumber(used), floor), floor, 0, 0) end
  end
end
if place ~= '' and score ~= '' then join(place, score) end
local next = ''
if keptMs > 0 and (isMine or (ARGV[5] == '1' and not value)) then
  call('SET', lock, 'kept:' .. token, 'PX', text(keptMs))
  local first = firstLive()
  if first then tell(first, 'h', text(keptMs)) end
elseif (isMine or isMyTurn) and ARGV[8] == '1' then
  next = giveTurn()
end
return { isMine and 1 or 0, next }
`;

/**
 * Prolongs votes. A node that has lost one, and is old enough to know that it gave it to nobody else, takes it back;
 * that counts from the next renewal on.
 */
const renewLua = `
-- KEYS lock, queue, fence of each lease in turn · ARGV token, leaseMs, highest number that may be used, of each in turn
-- returns for each lease 'renewed', 'again', 'no', 'young' or an error, and how many wait
local replies, isNew = {}, nil
local function renew(token, leaseMs, last)
  local value = call('GET', lock)
  if value and value ~= token then return 'no' end
  if not value then
    if isNew == nil then isNew = isYoung() end
    if isNew then return 'young' end
  end
  if value then call('PEXPIRE', lock, text(math.max(call('PTTL', lock), tonumber(leaseMs)))) end
  local stored, floor = fences()
  keep(math.max(stored, last), value and floor or stored, LAST_ROUND, leaseMs)
  if value then return 'renewed' end
  call('SET', lock, token, 'PX', leaseMs)
  return 'again'
end
for i = 1, #KEYS / 3 do
  choose(i)
  local isDone, result = pcall(renew, ARGV[3 * i - 2], ARGV[3 * i - 1], tonumber(ARGV[3 * i]))
  local waiting = redis.pcall('ZCARD', queue)
  replies[i] = { isDone and result or 'failed: ' .. tostring(type(result) == 'table' and result.err or result), type(waiting) == 'number' and waiting or 0 }
end
return replies
`;

/** Stores a number before it is used, on a node whose clock is far behind that of another. */
const raiseLua = `
-- KEYS lock, queue, fence · ARGV[1] token · ARGV[2] number · ARGV[3] leaseMs
-- returns 1 if the token has the vote, 0 if not
if call('GET', lock) ~= ARGV[1] then return 0 end
local last, floor, round = fences()
keep(math.max(last, tonumber(ARGV[2])), floor, round, ARGV[3])
return 1
`;

/** Gives the vote of one token to another, with greater numbers than were used. */
const adoptLua = `
-- KEYS lock, queue, fence · ARGV[1] token · ARGV[2] new token · ARGV[3] leaseMs · ARGV[4] highest number used
-- ARGV[5] which round of the adoption this is
-- returns vote first last waiters pttl | no pttl rank foreign value
local value = call('GET', lock)
if value ~= ARGV[1] and value ~= ARGV[2] then return { 'no', call('PTTL', lock), -1, 0, value or '' } end
local last, floor, latest = fences()
if value == ARGV[1] then latest = 0 end
local first = math.max(last + 1, now, tonumber(ARGV[4]) + 1)
local pttl = call('PTTL', lock)
call('PEXPIRE', lock, pttl) -- a server out of memory accepts further commands after it
keep(first + NUMBERS, math.max(floor, tonumber(ARGV[4])), math.max(latest, tonumber(ARGV[5])), ARGV[3])
call('SET', lock, ARGV[2], 'PX', ARGV[3])
return { 'vote', text(first), text(first + NUMBERS), others(), value == ARGV[1] and pttl or 0 }
`;

/** Gives the vote back to the old token, because too few nodes have adopted it. */
const undoAdoptLua = `
-- KEYS lock, queue, fence · ARGV[1] token · ARGV[2] new token · ARGV[3] how long the old token had it
-- ARGV[4] up to which round of the adoption it is given back
-- returns 1 if the new token had the vote, 0 if not
if call('GET', lock) ~= ARGV[2] or isOfLaterRound(ARGV[4]) then return 0 end
local _, floor = fences()
keep(floor, floor, LAST_ROUND, ARGV[3]) -- the rounds of the old token have ended long ago
call('SET', lock, ARGV[1], 'PX', ARGV[3])
return 1
`;
