/** How many characters the end of a lease and a slot have at most, with what is between and before them. */
const LONGEST_END = 24;

/**
 * The value of a lock that several have together. Readers: 'shared', and for each the end of its lease, in milliseconds
 * of server time, and its token. Permits: 'permits', and for each the same with its slot, the least number that no
 * other permit had when it was given. So each holder has an end of its own, and whatever removes the lock removes all
 * of them. A lock that one reader has is like any other, as is one of which the permit with slot 0 is the only one: its
 * value is the token, so most commands need none of this.
 *
 *     shared <end>:<token> <end>:<token>
 *     permits <end>/<slot>:<token> <end>/<slot>:<token>
 *
 * What another client has written is no such holder, however it begins: it has the lock alone.
 *
 * The lock ends with the last of its holders, not with whoever wrote last. A holder whose time is over is left out when
 * another one comes or is renewed. A value may have a thousand holders, so no command takes it apart: it is searched,
 * and pieces of it are cut out and put together. Needs `text`.
 */
export const holdersLua = `
local function holdersIn(value, nowMs)
  local holders = {}
  if string.sub(value, 1, 7) ~= 'shared ' and string.sub(value, 1, 8) ~= 'permits ' then return holders end
  for ends, slot, token in string.gmatch(value, ' (%d+)/?(%d*):(%x+:%d+[sp]%S*)') do
    if tonumber(ends) > nowMs then
      holders[#holders + 1] = { ends = tonumber(ends), slot = tonumber(slot), token = token }
    end
  end
  return holders
end

local function entry(ends, slot, token) return ' ' .. text(ends) .. (slot and '/' .. text(slot) or '') .. ':' .. token end

-- Where the entry of this holder begins and ends in the value, the end of its lease, and its slot; nil if it has none,
-- or if its time is over. No token or label contains a space.
local function entryOf(value, token, nowMs)
  local first, last = string.find(value, ':' .. token, 1, true)
  while first do
    local isWhole = last == #value or string.find(value, '^ ', last + 1)
    local before = string.sub(value, math.max(1, first - ${LONGEST_END}), first - 1)
    local at, ends, slot = string.match(before, '() (%d+)/?(%d*)$')
    if isWhole and at then
      if tonumber(ends) <= nowMs then return nil end
      return first - #before + at - 1, last, tonumber(ends), tonumber(slot)
    end
    first, last = string.find(value, ':' .. token, last + 1, true)
  end
end

-- The value without the holders whose time is over.
local function present(value, nowMs)
  for ends in string.gmatch(value, ' (%d+)%S+') do
    if tonumber(ends) <= nowMs then
      return (string.gsub(value, ' (%d+)%S+', function(its) return tonumber(its) <= nowMs and '' or nil end))
    end
  end
  return value
end

-- A value with a single holder that is written like any other lock is written so. A server out of memory accepts SET
-- after a write that needs no memory, such as PEXPIRE: even then, a lease must be prolonged.
local function writeHolders(lock, value, ms)
  local lone = string.match(value, '^%a+ %d+:(%S+)$') or string.match(value, '^%a+ %d+/0:(%S+)$')
  redis.call('PEXPIRE', lock, text(ms))
  redis.call('SET', lock, lone or value, 'PX', text(ms))
end

-- Adds a holder to those in the value, or several, with leases of this length.
local function addHolders(lock, value, entries, ms)
  writeHolders(lock, value .. entries, math.max(redis.call('PTTL', lock), ms))
end

-- The value in which the lease of one of several holders is prolonged, and its length; nil if it is none of them.
local function prolongedIn(value, token, leaseMs, nowMs)
  local first, last, ends, slot = entryOf(value, token, nowMs)
  if not first then return nil end
  local ms = math.max(ends - nowMs, leaseMs)
  return string.sub(value, 1, first - 1) .. entry(nowMs + ms, slot, token) .. string.sub(value, last + 1), ms
end

-- Prolongs the lease of one of several holders. Returns its length, or nil if it is none of them.
local function prolongHolder(lock, value, token, leaseMs, nowMs)
  local prolonged, ms = prolongedIn(present(value, nowMs), token, leaseMs, nowMs)
  if prolonged then addHolders(lock, prolonged, '', ms) end
  return ms
end

-- Ends the lease of one of several holders. Returns whether others have the lock, and whether for a shorter time than
-- this one; nil if it is none of them. If no others have it, its token is the value, as if it had had the lock alone.
-- What others have is seen from their ends and not from that of the lock, which may be a little later: time passes
-- between its PTTL and the next write.
local function removeHolder(lock, value, token, nowMs)
  local first, last, ends = entryOf(value, token, nowMs)
  if not first then return nil end
  local others, latest = string.sub(value, 1, first - 1) .. string.sub(value, last + 1), 0
  for digits in string.gmatch(others, ' (%d+)%S+') do latest = math.max(latest, tonumber(digits)) end
  if latest <= nowMs then
    writeHolders(lock, 'shared' .. entry(ends, nil, token), ends - nowMs)
    return false
  end
  writeHolders(lock, others, latest - nowMs)
  return true, ends > latest
end
`;

/** How the tokens of those differ that may have a lock together, and how much of it a permit takes. */
export const marksLua = `
-- 's' for a reader, 'p' for a permit, '' for a token that has the lock alone; nil for any other value.
local function markOf(token) return string.match(token, '^%x+:%d+([sp]?)') end

local function isReader(token) return markOf(token) == 's' end

-- How many permits the token takes, and how many there are at most beside and with it.
local function permitsOf(token)
  local weight, most = string.match(token, '^%x+:%d+p(%d+)/(%d+)')
  return tonumber(weight), tonumber(most)
end
`;

/** `holdersLua` for scripts that stand alone, with what it needs. */
export const loneHoldersLua = `
local function text(number) return string.format('%.0f', number) end
local function serverMs()
  local time = redis.call('TIME')
  return math.floor(time[1] * 1000 + time[2] / 1000)
end
${holdersLua}
`;
