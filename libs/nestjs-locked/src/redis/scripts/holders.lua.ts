/**
 * The value of a lock that several have together. Readers: 'shared', and for each the end of its lease, in milliseconds
 * of server time, and its token. Permits: 'permits', and for each the same with its slot, the least number that no other
 * permit had when it was given. So each holder has an end of its own, and whatever removes the lock removes all of
 * them. A lock that one reader has is like any other, as is one of which the permit with slot 0 is the only one: its
 * value is the token, so most commands need none of this.
 *
 *     shared <end>:<token> <end>:<token>
 *     permits <end>/<slot>:<token> <end>/<slot>:<token>
 *
 * What another client has written is no such holder, however it begins: it has the lock alone.
 *
 * The lock ends with the last of its holders, not with whoever wrote last. A holder whose time is over is left out when
 * the value is written the next time. Needs `text`.
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

-- A server out of memory accepts SET after a write that needs no memory, such as PEXPIRE: even then, a lease must be
-- prolonged.
local function writeHolders(lock, holders, nowMs)
  local last, parts = 0, { holders[1].slot and 'permits' or 'shared' }
  for i, holder in ipairs(holders) do
    last = math.max(last, holder.ends)
    parts[i + 1] = text(holder.ends) .. (holder.slot and '/' .. text(holder.slot) or '') .. ':' .. holder.token
  end
  local isPlain = not holders[2] and (holders[1].slot or 0) == 0
  local value = isPlain and holders[1].token or table.concat(parts, ' ')
  redis.call('PEXPIRE', lock, text(last - nowMs))
  redis.call('SET', lock, value, 'PX', text(last - nowMs))
end

-- Prolongs the lease of one of several holders. Returns its length, or nil if it is none of them.
local function prolongHolder(lock, value, token, leaseMs, nowMs)
  local holders, ms = holdersIn(value, nowMs), nil
  for _, holder in ipairs(holders) do
    if holder.token == token then
      holder.ends = math.max(holder.ends, nowMs + leaseMs)
      ms = holder.ends - nowMs
    end
  end
  if ms then writeHolders(lock, holders, nowMs) end
  return ms
end

-- Ends the lease of one of several holders. Returns whether others have the lock; nil if it is none of them. If no
-- others have it, its token is the value, as if it had had the lock alone.
local function removeHolder(lock, value, token, nowMs)
  local others, own = {}, nil
  for _, holder in ipairs(holdersIn(value, nowMs)) do
    if holder.token == token then own = holder else others[#others + 1] = holder end
  end
  if not own then return nil end
  own.slot = nil
  writeHolders(lock, others[1] and others or { own }, nowMs)
  return others[1] ~= nil
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
