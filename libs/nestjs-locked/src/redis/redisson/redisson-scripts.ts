import { REVOKED_MS } from '../../core/store/lease-timing.js';
import type { LockScriptSet } from '../scripts/lock-scripts.js';
import { RedisScript } from '../scripts/redis-script.js';
import {
  HANDOVER_PAUSE_MS,
  redissonLua,
  type RedissonSettings,
  UNLOCKED,
} from './redisson-protocol.lua.js';

/**
 * The scripts of a service that shares its locks with Redisson. Their arguments and answers are those of the scripts
 * for our own locks; of those, only what differs is described. KEYS are `lock, fence` of each lock in turn.
 */
export class RedissonScripts implements LockScriptSet {
  readonly acquire: RedisScript;
  readonly acquireTogether: RedisScript;
  readonly recheck: RedisScript;
  readonly renew: RedisScript;
  readonly prolong: RedisScript;
  readonly release: RedisScript;
  readonly leave: RedisScript;
  readonly takeBack: RedisScript;
  readonly revoke: RedisScript;
  readonly inspect: RedisScript;
  readonly askHolder: RedisScript;
  readonly answerQuestion: RedisScript;
  readonly probe: RedisScript;
  /** The locks among many keys. */
  readonly find: RedisScript;

  constructor(settings: RedissonSettings) {
    const shared = redissonLua(settings);
    const script = (name: string, lua: string): RedisScript => new RedisScript(name, shared + lua);
    this.acquire = script('acquire', ACQUIRE);
    this.acquireTogether = script('acquire-together', ACQUIRE_TOGETHER);
    this.recheck = script('recheck', RECHECK);
    this.renew = script('renew', RENEW);
    this.prolong = script('prolong', PROLONG);
    this.release = script('release', RELEASE);
    this.leave = script('leave', LEAVE);
    this.takeBack = script('take-back', TAKE_BACK);
    this.revoke = script('revoke', REVOKE);
    this.inspect = script('inspect', INSPECT);
    this.askHolder = script('ask the holder of', ASK_HOLDER);
    this.answerQuestion = script('answer a question about', ANSWER_QUESTION);
    this.probe = script('probe', PROBE);
    this.find = script('find locks', FIND);
  }

  get all(): readonly RedisScript[] {
    return Object.values(this) as RedisScript[];
  }
}

const ACQUIRE = `
-- ARGV[1] token · ARGV[2] leaseMs · ARGV[3] nowait 0|1, 0 if missing
local token = ARGV[1]
local reply = take(token, ARGV[2])
if reply then return reply end
return ARGV[3] == '1' and { 'busy', call('PTTL', lock), 0 } or queued(token)
`;

/** The first loop only reads, and decides for all locks, as in `acquireTogetherScript`. */
const ACQUIRE_TOGETHER = `
-- ARGV[1] leaseMs · then the token for each lock
local leaseMs, replies, own = ARGV[1], { 'granted' }, {}
for i = 1, #KEYS / 2 do
  choose(i)
  own[i] = has(ARGV[1 + i])
  if not own[i] and not isFree() then replies[1] = 'busy' end
end
local above = least()
for i = 1, #KEYS / 2 do
  choose(i)
  local token, reply = ARGV[1 + i], {}
  if replies[1] == 'granted' then
    local first, last
    if own[i] then first, last = mint(prolong(leaseMs), above, 0) else first, last = give(token, leaseMs, above, 0) end
    reply = { first, last, 1 }
  elseif own[i] then
    giveUp(token, 0) -- sent twice, with another lock lost in between: keep none
  elseif not isFree() then
    reply = { call('PTTL', lock), 0 }
  end
  replies[i + 1] = reply
end
return replies
`;

const RECHECK = `
-- ARGV[1] token · ARGV[2] new token · ARGV[3] leaseMs
return has(ARGV[1]) and take(ARGV[1], ARGV[3]) or take(ARGV[2], ARGV[3]) or queued(ARGV[2])
`;

const RENEW = `
-- ARGV token, leaseMs, highest fencing token used (0 = not known), how many more are needed (0 = none) of each in turn
local replies = {}
for i = 1, #KEYS / 2 do
  choose(i)
  replies[i] = {}
  if stillHas(ARGV[4 * i - 3]) then
    local ms, more = prolong(ARGV[4 * i - 2]), tonumber(ARGV[4 * i])
    replies[i] = { text(more > 0 and reserve(tonumber(ARGV[4 * i - 1]), more, ms) or 0), 1 }
  end
end
return replies
`;

const PROLONG = `
-- ARGV token, leaseMs of each in turn
local replies = { 0 }
for i = 1, #KEYS / 2 do
  choose(i)
  replies[i + 1] = { i }
  if stillHas(ARGV[2 * i - 1]) then
    prolong(ARGV[2 * i])
    replies[1], replies[i + 1][2] = replies[1] + 1, 1
  end
end
return replies
`;

/** With a new token, the process comes back after a pause in which others, which are told, can take the key. */
const RELEASE = `
-- ARGV[1] token · ARGV[3] new token, '' or missing if there is none · ARGV[4] leaseMs of the new token · ARGV[5] keepMs
local token, newToken = ARGV[1], ARGV[3] or ''
local isOurs = stillHas(token)
if isOurs then giveUp(token, tonumber(ARGV[5] or 0)) end
if newToken == '' then return { isOurs and 'released' or 'lost' } end
if isOurs then return queued(newToken, ${HANDOVER_PAUSE_MS}) end
local reply = take(newToken, ARGV[4]) or queued(newToken)
reply[6] = 'lost'
return reply
`;

const LEAVE = `
-- ARGV[1] token · ARGV[2] token of a re-check in flight or '' · ARGV[3] leaseMs
return has(ARGV[2]) and take(ARGV[2], ARGV[3]) or take(ARGV[1], ARGV[3]) or { 'left' }
`;

const TAKE_BACK = `
-- ARGV token · another token or '' · highest fencing token used · keepMs, as release, of each in turn
local function takeBack(token, other, keepMs)
  if has(token) then giveUp(token, keepMs)
  elseif has(other) then giveUp(other, keepMs)
  elseif keepMs > 0 and isFree() then keep('kept:' .. token, text(keepMs)) end
end
local replies = {}
for i = 1, #KEYS / 2 do
  choose(i)
  local isDone, why = pcall(takeBack, ARGV[4 * i - 3], ARGV[4 * i - 2], tonumber(ARGV[4 * i]))
  replies[i] = isDone and 'left' or type(why) == 'table' and why.err or tostring(why)
end
return replies
`;

/**
 * The key stays taken for a moment, so that the holder learns of it before the next one enters. No prefix tells locks
 * from the data of the application, which must not be deleted by mistake.
 */
const REVOKE = `
-- ARGV[1] an id · ARGV[2] the token or field that must have the lock, missing if whoever has it
local value = holder()
if not value or string.find(value, '^revoked:') or (ARGV[2] and value ~= ARGV[2]) then return false end
if not isLock(value) then
  return redis.error_reply('WRONGTYPE The hash has other fields than a lock of Redisson, and is left as it is')
end
call('DEL', lock)
keep('revoked:' .. ARGV[1], ${REVOKED_MS})
if isToken(value) then tell(value, 'r') end
return value
`;

const INSPECT = `
local value = holder()
return value and { value, call('PTTL', lock), 0, 0, {} } or {}
`;

/** A process of ours that does not hear it has died, or the field is of a thread of Redisson that looks like one. */
const ASK_HOLDER = `
-- ARGV[1] the process that asks · ARGV[2] the id of the question
local value, id = holder(), ARGV[2] .. '.1'
if not value or not isToken(value) then return {} end
local heard = tell(value, 'q', ARGV[1], id) or 0
return heard > 0 and { { value, id, heard, 1 } } or {}
`;

const ANSWER_QUESTION = `
-- ARGV[1] the process that has asked · ARGV[2] the id of the question · ARGV[3] the answer
return call('PUBLISH', inboxOf(ARGV[1]), 'a ' .. ARGV[2] .. ' ' .. ARGV[3])
`;

const PROBE = `
-- KEYS a key that nobody else uses · ARGV[1] own inbox channel · ARGV[2] message
-- returns the number of listeners
if tonumber(call('TIME')[1]) <= 0 then return redis.error_reply('NOTIME in scripts') end
own('probe', 1000)
for _, command in ipairs({ 'EXISTS', 'HLEN', 'HKEYS', 'PTTL' }) do call(command, lock) end
call('HEXISTS', lock, 'probe')
call('HDEL', lock, 'probe')
call('SET', lock, '1', 'PX', 1000)
call('GET', lock)
call('DEL', lock)
call('PUBLISH', channelOf(lock), '${UNLOCKED}')
call('PUBLISH', ARGV[1], ARGV[2])
return call('PUBSUB', 'NUMSUB', ARGV[1])[2]
`;

/** A hash of another kind has other fields, or several. */
const FIND = `
-- KEYS of any type · returns the number of each that is a lock, followed by its holder
local found = {}
for i = 1, #KEYS do
  lock = KEYS[i]
  local isHash, value = pcall(holder)
  if isHash and value and isLock(value) then
    found[#found + 1], found[#found + 2] = i, value
  end
end
return found
`;
