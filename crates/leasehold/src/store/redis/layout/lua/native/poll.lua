-- Confirms a grant, or keeps a waiter's place; never joins a queue (model/poll.rs).
--
-- KEYS  1 the lock's record
-- ARGV  1 the prefix of the names of all inboxes
--       2 packed: retention (µs), attempt (24 bytes), ttl (µs)
-- reply packed: now (µs), more (1), and one of
--       'G' granted: token (µs), deadline (µs), contended (1)
--       'Q' queued: sequence, ahead (4), retry after (µs), the capacity in force if the
--         waiter wants another one, or 0 (4)
--       'O' gone   'R' refused: 'V' version: found (4)   'X' the record is damaged
-- Numbers are little-endian doubles, or integers with the number of bytes in parentheses.
--@include clock

if not ARGV[2] or #ARGV[2] ~= 40 then return redis.error_reply('ARGUMENT 2 has a wrong length') end
local retention, id, ttl = struct.unpack('<dc24d', ARGV[2])
if not (retention >= 0 and retention <= 1e15 and ttl >= 0 and ttl <= 1e15) then
  return redis.error_reply('ARGUMENT 2 has a number out of range')
end
local fields = redis.call('HMGET', KEYS[1], 's', 'b')
local state, term = fields[1], fields[2]
--@include publish
--@include fast/waiters
--@include fast/confirm
--@include fast/keep_place
--@include native/record
--@include native/hold
--@include native/queue
--@include native/grant

return store.answer(store.run(KEYS[1], state, function()
  step.sweep()
  local index = holds.live_hold(id)
  if not index then
    local waiter = waiters.waiting_of(id)
    if waiter then return step.wait_on(waiter, ttl) end
    step.promote(nil)
    return 'O'
  end
  local state, reply = holds.hold_at(index).state, 'O'
  if state == CLAIMED or state == UNCLAIMED then reply = holds.confirm(index, ttl) end
  step.promote(nil)
  return reply
end))
