import { RedisScript } from './redis-script.js';

/** The observed hours of a week. */
const KEPT_HOURS = 168;

/** A day longer than the oldest hour counts. */
const KEPT_MS = 8 * 24 * 3_600_000;

/** Adds what one process has observed to what all have: the longest stall of each hour counts. */
export const shareStallsScript = new RedisScript(
  'share stalls',
  `
-- KEYS[1] the record: 'hour:ms hour:ms' · ARGV[1] the same for what this process has observed
-- returns the record
local longest = {}
local function add(text)
  for word in string.gmatch(text, '%S+') do -- a pattern of digits takes minutes for long words that others have written
    local hour, ms = string.match(word, '^(%d+):(%d+)$')
    if hour and tonumber(ms) > tonumber(longest[hour] or -1) then longest[hour] = ms end
  end
end
add(redis.call('GET', KEYS[1]) or '')
add(ARGV[1])
-- The clock of the server: a process whose clock is wrong must not remove what others have observed.
local present = math.floor(redis.call('TIME')[1] / 3600)
local record = {}
for hour, ms in pairs(longest) do
  local age = present - tonumber(hour)
  if age >= 0 and age < ${KEPT_HOURS} then record[#record + 1] = hour .. ':' .. ms end
end
record = table.concat(record, ' ')
redis.call('SET', KEYS[1], record, 'PX', ${KEPT_MS})
return record
`,
);
