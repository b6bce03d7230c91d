#!lua flags=allow-oom
-- Ends a hold and hands the lock on in the same step (model/release.rs).
--
-- KEYS  1 the lock's record
-- ARGV  1 what all inboxes' names begin with   2 retention, µs
--       3 attempt, 24 bytes   4 keep, µs, 0 for not at all   5 unanswered, 0 or 1
-- reply now, more, and one of
--       'released'   'not_held', last token µs or 0   'refused', 'version', found
--@include clock
--@include arguments

local id, keep, unanswered = bytes(3, 24), number(4, SPAN_MAX), ARGV[5] == '1'
local values = redis.call('HMGET', KEYS[1], 's', 'q', 't')

-- The most frequent case, before Lua has to build the functions of the general one, and with the
-- same result: this attempt is the only one that holds, its time has not come, and nobody waits.
local function fast_path(state)
  if string.sub(state, 82, 105) ~= id or string.byte(state, 110) == 1 then return end
  local version, capacity, last_token, collect_at, count = struct.unpack('<BI4ddI4', state)
  if version ~= 1 or count ~= 1 then return end
  if not (last_token >= 0 and last_token <= TIME_MAX) then return end
  if not (collect_at >= now + number(2, SPAN_MAX) and collect_at <= TIME_MAX) then return end
  if not (struct.unpack('<d', state, 127) > now) then return end
  redis.call('HSET', KEYS[1], 's', struct.pack('<BI4dd', 1, capacity, last_token, collect_at))
  return { now, 0, 'released' }
end

if values[1] and not values[2] and #values[1] >= 150 and keep == 0 and not unanswered then
  local reply = fast_path(values[1])
  if reply then return reply end
end
--@include record
--@include hold
--@include queue
--@include grant

-- The name stays taken, by nobody.
local function keep_hold(hold)
  local deadline = now + keep
  hold.state, hold.ttl, hold.deadline = KEPT, keep, deadline
  record.longest_ttl = math.max(record.longest_ttl, keep)
  expect(deadline)
  if record.upgrading == id then record.upgrading = NOBODY end
  keep_until(deadline)
end

return answer(run(KEYS[1], values, function()
  sweep()
  local index = live_hold(id)
  if not index then
    if unanswered then bury_attempt(id) end
    promote(nil)
    return not_held()
  end
  local hold = hold_at(index)
  if hold.state == KEPT then return { 'released' } end
  if keep == 0 then
    remove_hold(index)
  else
    keep_hold(hold)
  end
  if unanswered then bury_attempt(id) end
  keep_until(now)
  promote(nil)
  return { 'released' }
end))
