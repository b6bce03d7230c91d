-- Checks arguments before anything is written. `tonumber` also accepts "inf" and "nan"; the
-- comparisons below refuse them.
local function number(index, most)
  local value = tonumber(ARGV[index])
  if not (value and value >= 0 and value <= most and value % 1 == 0) then
    error(redis.error_reply('ARGUMENT ' .. index .. ' is no whole number in range'))
  end
  return value
end

local function bytes(index, length)
  local value = ARGV[index]
  if not value or #value ~= length then
    error(redis.error_reply('ARGUMENT ' .. index .. ' has the wrong length'))
  end
  return value
end

local TIME_MAX = 9007199254740991 -- µs, or a count: 2^53 - 1, the last that a double has exactly
local SPAN_MAX = 1000000000000000 -- µs, 31 years: so no sum of now and spans comes near 2^53
