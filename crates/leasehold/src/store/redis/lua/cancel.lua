#!lua flags=allow-oom
-- A waiter leaves, whether it still waits or was granted a moment ago (model/cancel.rs).
--
-- KEYS  1 the lock's record
-- ARGV  1 what all inboxes' names begin with   2 retention, µs
--       3 attempt, 24 bytes   4 unanswered, 0 or 1
-- reply now, more, and one of
--       'cancelled', 'released' | 'removed' | 'unknown'   'refused', 'version', found
--@include clock
--@include arguments
--@include record
--@include hold
--@include queue
--@include grant

local id, unanswered = bytes(3, 24), ARGV[4] == '1'

local function leave_or_release()
  local waiter = waiting_of(id)
  if waiter then
    leave(waiter)
    return 'removed'
  end
  local index = live_hold(id)
  if not index or hold_at(index).state == KEPT then return 'unknown' end
  remove_hold(index)
  return 'released'
end

return answer(run(KEYS[1], nil, function()
  sweep()
  local cancelled = leave_or_release()
  -- An attempt that is not known may be on its way: its acquire must find this.
  if unanswered or cancelled == 'unknown' then bury_attempt(id) end
  keep_until(now)
  promote(nil)
  return { 'cancelled', cancelled }
end))
