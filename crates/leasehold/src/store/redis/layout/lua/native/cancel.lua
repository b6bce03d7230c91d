-- Removes a waiter, or its grant if that was made a moment ago (model/cancel.rs).
--
-- KEYS  1 the lock's record
-- ARGV  1 the prefix of the names of all inboxes
--       2 packed: retention (µs), attempt (24 bytes), unanswered (1)
-- reply packed: now (µs), more (1), and one of
--       'C' cancelled: 'L' released | 'M' removed | 'U' unknown
--       'R' refused: 'V' version: found (4)   'X' the record is damaged
-- Numbers are little-endian doubles, or integers with the number of bytes in parentheses.
--@include clock

if not ARGV[2] or #ARGV[2] ~= 33 then return redis.error_reply('ARGUMENT 2 has a wrong length') end
local retention, id, unanswered = struct.unpack('<dc24B', ARGV[2])
if not (retention >= 0 and retention <= 1e15) then
  return redis.error_reply('ARGUMENT 2 has a number out of range')
end
--@include publish
--@include native/record
--@include native/hold
--@include native/queue
--@include native/grant

local function leave_or_release()
  local waiter = waiters.waiting_of(id)
  if waiter then
    waiters.leave(waiter)
    return 'CM'
  end
  local index = holds.live_hold(id)
  if not index or holds.hold_at(index).state == COOLDOWN then return 'CU' end
  -- Nobody has used this hold, because the caller does not know of the grant.
  holds.remove_hold(index)
  return 'CL'
end

return store.answer(store.run(KEYS[1], nil, function()
  step.sweep()
  local cancelled = leave_or_release()
  -- If the attempt is not known, its acquire may still arrive, and must find this tombstone.
  if unanswered == 1 or cancelled == 'CU' then holds.leave_tombstone(id) end
  holds.keep_until(now)
  step.promote(nil)
  return cancelled
end))
