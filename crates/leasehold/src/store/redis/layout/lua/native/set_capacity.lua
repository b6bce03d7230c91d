-- Sets the number of permits of a semaphore that is in use, for an operator
-- (model/set_capacity.rs).
--
-- KEYS  1 the lock's record
-- ARGV  1 the prefix of the names of all inboxes
--       2 packed: retention (µs), capacity (4)
-- reply packed: now (µs), more (1), and one of
--       'Y' the capacity was set: what it was before, or 0 if nobody holds or waits (4)
--       'R' refused: 'M' mismatch: capacity (4) | 'V' version: found (4) | 'W' weight
--       'X' the record is damaged
-- Numbers are little-endian doubles, or integers with the number of bytes in parentheses.
--@include clock

if not ARGV[2] or #ARGV[2] ~= 12 then return redis.error_reply('ARGUMENT 2 has a wrong length') end
local retention, capacity = struct.unpack('<dI4', ARGV[2])
if not (retention >= 0 and retention <= 1e15) then
  return redis.error_reply('ARGUMENT 2 has a number out of range')
end
--@include publish
--@include native/record
--@include native/hold
--@include native/queue
--@include native/grant

return store.answer(store.run(KEYS[1], nil, function()
  if capacity == 0 or capacity >= LOCK_CAPACITY then return 'RW' end
  step.sweep()
  -- Ended holds and dead waiters are removed first, so that they do not count.
  step.promote(nil)
  if record.count == 0 and record.waiting == 0 then return struct.pack('<c1I4', 'Y', 0) end
  local before = record.capacity
  if before == LOCK_CAPACITY then return struct.pack('<c1c1I4', 'R', 'M', before) end
  record.capacity = capacity
  holds.keep_until(now)
  step.promote(nil)
  return struct.pack('<c1I4', 'Y', before)
end))
