import { PROCESS_ID_DIGITS } from '../../core/store/lease-token.js';
import { fenceLua } from '../scripts/fence.lua.js';
import { luaString } from '../scripts/protocol.lua.js';
import type { ScriptSettings } from '../scripts/script-settings.js';

/** What Redisson's `RedissonLock.getChannelName` puts before the name of a lock: the channel of its releases. */
export const CHANNEL_PREFIX = 'redisson_lock__channel:';

/** What a release is announced with: `LockPubSub.UNLOCK_MESSAGE`. */
export const UNLOCKED = '0';

/** How long a process that has handed a key over waits before it asks for it again, in milliseconds. */
export const HANDOVER_PAUSE_MS = 10;

/** The settings of a service that shares its locks with Redisson. */
export interface RedissonSettings extends ScriptSettings {
  /** What the connection itself puts before the keys of its commands, but not into messages. */
  readonly connectionPrefix: string;
}

/** @param name of the lock in Redis @returns the channel on which Redisson announces that it was released */
export function channelOf(name: string): string {
  return CHANNEL_PREFIX + (name.includes('{') ? name : `{${name}}`);
}

/**
 * The shared part of the scripts for locks that are those of Redisson's `RLock`, written from what its commands do to
 * the keys. What a script uses but does not define is defined here.
 *
 * KEYS of each lock in turn: lock: hash with one field for its holder, `<client as a UUID>:<thread, or number of the
 *                            lease>`, whose value is how often the holder has it: here always 1. It has an expiry
 *                            fence: as in `protocolLua`, shared by all locks of the service; Redisson has none
 *
 * Four rules hold in every function here:
 *
 * - Only a field of the sender's own token is ever removed, and a hash is prolonged only if it has such a field.
 * - Redisson has no queue that we could stand in. So a key is never handed to anybody: it becomes free, that is
 *   announced, and whoever asks first gets it. Every waiter asks once more after its subscription stands.
 * - Everything that may be refused is read, and the fence written, before the lock is. PUBLISH comes last, through
 *   pcall.
 * - Nobody can tell whether Java waits. So every answer to a holder says that somebody does.
 */
export const redissonLua = ({
  inboxPrefix,
  connectionPrefix,
  ...settings
}: RedissonSettings): string => `
local call, try = redis.call, redis.pcall
local lock, fence
local function choose(i) lock, fence = unpack(KEYS, 2 * i - 1, 2 * i) end
choose(1)

local function text(number) return string.format('%.0f', number) end

local micros
local function now()
  if not micros then
    local time = call('TIME')
    micros = time[1] * 1000000 + time[2]
  end
  return micros
end
${fenceLua({ ...settings, inboxPrefix })}
-- The field of a token: its process as a UUID, and its number.
local function fieldOf(token)
  local function part(from, to) return string.sub(token, from, to) end
  return table.concat({ part(1, 8), part(9, 12), part(13, 16), part(17, 20), part(21, -1) }, '-')
end

-- The token of a field; nil for one of Redisson, whose threads have no such high number, and if the key is only kept.
local function tokenOf(field)
  local uuid, number = string.match(field, '^(%x+%-%x+%-%x+%-%x+%-%x+):(%d+)$')
  if uuid and #uuid == 36 and #number >= 16 then return string.gsub(uuid, '-', '') .. ':' .. number end
end

local function isToken(value) return string.find(value, '^%x+:%d+$') ~= nil end

local function inboxOf(token) return ${luaString(inboxPrefix)} .. string.sub(token, 1, ${PROCESS_ID_DIGITS}) end

local function channelOf(name)
  return '${CHANNEL_PREFIX}' .. (string.find(name, '{', 1, true) and name or '{' .. name .. '}')
end

local function has(token) return token ~= '' and call('HEXISTS', lock, fieldOf(token)) == 1 end

-- The same, but a key of another type, by which somebody has overwritten the lock, is not ours.
local function stillHas(token)
  local found = try('HEXISTS', lock, fieldOf(token))
  if type(found) ~= 'table' then return found == 1 end
  return not string.find(found.err, 'WRONGTYPE', 1, true) and error(found.err)
end
local function isFree() return call('EXISTS', lock) == 0 end

-- The token or field of the holder; '' for a hash with several fields, nil if the key is free. Another type is an error.
local function holder()
  local fields = call('HLEN', lock)
  if fields == 0 then return nil end
  if fields ~= 1 then return '' end
  local field = call('HKEYS', lock)[1]
  return tokenOf(field) or field
end

-- Whether a holder is one of a lock, and not a field of some other hash.
local function isLock(value)
  return string.find(value, '^[%x%-]+:%d+$') or string.find(value, '^kept:') or string.find(value, '^revoked:')
end

local function announce() try('PUBLISH', channelOf(lock), '${UNLOCKED}') end

-- Returns how many have heard it, or false if the server refuses.
local function tell(token, kind, ...)
  local key = string.sub(lock, ${Buffer.byteLength(connectionPrefix) + 1})
  local message = table.concat({ kind, token, ... }, ' ') .. ' ' .. key
  local heard = try('PUBLISH', inboxOf(token), message)
  return type(heard) == 'number' and heard
end

local function own(field, ms)
  call('HSET', lock, field, 1)
  call('PEXPIRE', lock, ms)
end

-- Precondition: the lock is free.
local function give(token, ms, above, more)
  local first, last = mint(ms, above, more)
  own(fieldOf(token), ms)
  return first, last
end

-- Precondition: the token has the lock.
local function prolong(ms)
  ms = text(math.max(call('PTTL', lock), tonumber(ms)))
  call('PEXPIRE', lock, ms)
  return ms
end

local function granted(token, first, last) return { 'granted', token, first, last, 1 } end

-- The answer to a token that has the lock already, or gets it because it is free; nil if another one has it.
local function take(token, ms)
  if has(token) then return granted(token, mint(prolong(ms))) end
  if isFree() then return granted(token, give(token, ms)) end
end

local function queued(token, ms) return { 'queued', token, '0', ms or call('PTTL', lock), 0 } end

-- Keeps a free key taken by nobody. Waiters hear of it, because they know only the longer time of the holder before.
local function keep(field, ms)
  own(field, ms)
  announce()
end

-- Precondition: the token has the lock.
local function giveUp(token, keepMs)
  call('HDEL', lock, fieldOf(token))
  if keepMs > 0 and isFree() then return keep('kept:' .. token, text(keepMs)) end
  announce()
end
`;
