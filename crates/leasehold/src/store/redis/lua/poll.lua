#!lua flags=allow-oom
-- Confirms a grant, or keeps a waiter's place; never joins a queue (model/poll.rs).
--
-- KEYS  1 the lock's record
-- ARGV  1 what all inboxes' names begin with   2 retention, µs
--       3 attempt, 24 bytes   4 ttl, µs
-- reply now, more, and one of
--       'granted', token µs, deadline µs, contended   'queued', sequence, ahead, retry after µs
--       'gone'   'refused', 'version', found
--@include clock
--@include arguments
--@include record
--@include hold
--@include queue
--@include grant

local id, ttl = bytes(3, 24), number(4, SPAN_MAX)

return answer(run(KEYS[1], nil, function()
  sweep()
  local index = live_hold(id)
  if not index then
    local waiter = waiting_of(id)
    if waiter then return wait_on(waiter, ttl) end
    promote(nil)
    return { 'gone' }
  end
  local state, reply = hold_at(index).state, { 'gone' }
  if state == CLAIMED or state == UNCLAIMED then reply = confirm(index, ttl) end
  promote(nil)
  return reply
end))
