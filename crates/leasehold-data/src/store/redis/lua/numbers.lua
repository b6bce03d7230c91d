-- Gives out a block of numbers (model/numbers.rs, which says why they grow as they do).
--
-- KEYS  1 the sequence: `last`, and `day` if it starts again each day
-- ARGV  1 count   2 µs for one number of the floor, 0 for a plain counter
--       3 how far east of UTC the days are, µs, or nothing without days
-- reply now, and one of
--       'block', first, day or -1, µs left of that day   'early', retry after, µs
--       'other_plan'   'used_up'

local LEAD, DAY, LONGEST_RETRY = 200000, 86400000000, 3600000000 -- µs

local count, step = number(1, TIME_MAX), number(2, SPAN_MAX)
local is_dated, offset = ARGV[3] ~= '', 0
if is_dated then
  offset = tonumber(ARGV[3])
  if not (offset and offset >= -DAY and offset <= DAY and offset % 1 == 0) then
    error(redis.error_reply('ARGUMENT 3 is no offset'))
  end
end

local found = redis.call('HMGET', KEYS[1], 'last', 'day')
local last, day = found[1] and tonumber(found[1]), found[2] and tonumber(found[2])
if last and (day ~= nil and day ~= false) ~= is_dated then return { now, 'other_plan' } end

local function save(number)
  if is_dated then
    redis.call('HSET', KEYS[1], 'last', string.format('%.0f', number),
      'day', string.format('%.0f', day))
  else
    redis.call('HSET', KEYS[1], 'last', string.format('%.0f', number))
  end
end

local here, is_new, since = now + offset, not last, now
if is_dated then
  local today = (here - here % DAY) / DAY
  if not day or today > day then day, last = today, nil end
  since = math.max(here - day * DAY, 0)
end
-- The least number of the next block, rounded up, and the highest one that may be given out.
local floor, highest = 0, 0
if step > 0 then
  floor, highest = math.ceil(since / step), math.floor((since + LEAD) / step)
end
if is_new and step > 0 then
  save(highest)
  return { now, 'early', count * step }
end

local first = math.max((last or 0) + 1, floor)
local last_one = first + count - 1
if last_one > TIME_MAX then return { now, 'used_up' } end
if step > 0 and last_one > highest then
  local retry_after = math.max(last_one * step - LEAD - since, 1)
  return { now, 'early', math.min(retry_after, LONGEST_RETRY) }
end
save(last_one)
if not is_dated then return { now, 'block', first, -1, 0 } end
return { now, 'block', first, day, math.max((day + 1) * DAY - here, 0) }
