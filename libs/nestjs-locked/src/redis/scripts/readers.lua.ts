/**
 * The value of a lock that several readers have: 'shared', and for each the end of its lease, in milliseconds of server
 * time, and its token. So each reader has an end of its own, and whatever removes the lock removes all of them. A lock
 * that one reader has is like any other: its value is the token, so most commands need none of this.
 *
 * What another client has written is no reader, however it begins: it has the lock alone.
 *
 * The lock ends with the last of its readers, not with whoever wrote last. A reader whose time is over is left out when
 * the value is written the next time. Needs `text`.
 */
export const readersLua = `
local function readersIn(value, nowMs)
  local readers = {}
  if string.sub(value, 1, 7) ~= 'shared ' then return readers end
  for ends, token in string.gmatch(value, ' (%d+):(%x+:%d+s%S*)') do
    if tonumber(ends) > nowMs then readers[#readers + 1] = { ends = tonumber(ends), token = token } end
  end
  return readers
end

-- A server out of memory accepts SET after a write that needs no memory, such as PEXPIRE: even then, a lease must be
-- prolonged.
local function writeReaders(lock, readers, nowMs)
  local last, parts = 0, { 'shared' }
  for i, reader in ipairs(readers) do
    last = math.max(last, reader.ends)
    parts[i + 1] = text(reader.ends) .. ':' .. reader.token
  end
  local value = readers[2] and table.concat(parts, ' ') or readers[1].token
  redis.call('PEXPIRE', lock, text(last - nowMs))
  redis.call('SET', lock, value, 'PX', text(last - nowMs))
end

-- Prolongs the lease of one of several readers. Returns its length, or nil if it is none of them.
local function prolongReader(lock, value, token, leaseMs, nowMs)
  local readers, ms = readersIn(value, nowMs), nil
  for _, reader in ipairs(readers) do
    if reader.token == token then
      reader.ends = math.max(reader.ends, nowMs + leaseMs)
      ms = reader.ends - nowMs
    end
  end
  if ms then writeReaders(lock, readers, nowMs) end
  return ms
end

-- Ends the lease of one of several readers. Returns whether others read on; nil if it is none of them. If none do, it
-- has the lock alone.
local function removeReader(lock, value, token, nowMs)
  local others, own = {}, nil
  for _, reader in ipairs(readersIn(value, nowMs)) do
    if reader.token == token then own = reader else others[#others + 1] = reader end
  end
  if not own then return nil end
  writeReaders(lock, others[1] and others or { own }, nowMs)
  return others[1] ~= nil
end
`;

/** How the tokens of readers differ from others. */
export const isReaderLua = `
local function isReader(token) return string.find(token, '^%x+:%d+s') ~= nil end
`;

/** `readersLua` for scripts that stand alone, with what it needs. */
export const loneReadersLua = `
local function text(number) return string.format('%.0f', number) end
local function serverMs()
  local time = redis.call('TIME')
  return math.floor(time[1] * 1000 + time[2] / 1000)
end
${readersLua}
`;
