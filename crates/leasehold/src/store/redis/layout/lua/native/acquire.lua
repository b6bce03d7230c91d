-- Takes the lock, or joins its queue, or says that it is busy (model/acquire.rs).
--
-- KEYS  1 the lock's record
-- ARGV  1 what all inboxes' names begin with
--       2 packed: retention (µs), attempt (24 bytes), weight (4), capacity (4), ttl (µs), wait (1),
--         nonce (8 bytes), not after (µs), ballot (µs, or 0 for none), facts (the rest)
-- reply packed: now (µs), more (1), and one of
--       'G' granted: token (µs), deadline (µs), contended (1)
--       'Q' queued: sequence, ahead (4), retry after (µs), the capacity in force if it asks for
--         another one, or 0 (4)
--       'B' busy: retry after (µs)   'L' late   'S' stale   'X' the record is damaged
--       'R' refused: 'B' ballot | 'M' mismatch: capacity (4) | 'Q' queue full
--         | 'V' version: found (4) | 'W' weight
-- Numbers are little-endian doubles, or integers of so many bytes.
--@include clock

if not ARGV[2] or #ARGV[2] < 73 then return redis.error_reply('ARGUMENT 2 is too short') end
local retention, id, weight, capacity, ttl, wait, nonce, not_after, ballot, facts =
  struct.unpack('<dc24I4I4dBc8dd', ARGV[2])
facts = string.sub(ARGV[2], facts)
-- Spans of at most 31 years, so that no sum with now comes near the 2^53 that a double holds.
if not (retention >= 0 and retention <= 1e15 and ttl >= 0 and ttl <= 1e15 and not_after >= 0
    and ballot >= 0) then
  return redis.error_reply('ARGUMENT 2 has a number out of range')
end
if now > not_after then return struct.pack('<dBc1', now, 0, 'L') end
local state = redis.call('HGET', KEYS[1], 's')

--@include fast/acquire
--@include publish
--@include fast/waiters
--@include fast/join
--@include native/record
--@include native/hold
--@include native/queue
--@include native/grant

-- A copy of an acquire that was granted: the same grant again.
local function acquire_again(index)
  local hold_state = holds.hold_at(index).state
  if hold_state == COOLDOWN or hold_state == REVOKED then return 'S' end
  local reply = holds.confirm(index, ttl)
  step.promote(nil)
  return reply
end

return store.answer(store.run(KEYS[1], state, function()
  step.sweep()
  local index = holds.live_hold(id)
  if index then return acquire_again(index) end
  local waiter = waiters.waiting_of(id)
  if waiter then return step.wait_on(waiter, ttl) end
  if holds.is_finished(id) then return 'S' end
  if weight > capacity then return 'RW' end
  if step.is_too_far_ahead(ballot) then return 'RB' end
  step.promote(nil)
  if record.count == 0 and record.waiting == 0 then holds.begin_with(capacity) end
  if not holds.is_same_kind(capacity) or wait == 0 and not holds.admits(weight, capacity) then
    return struct.pack('<c1c1I4', 'R', 'M', record.capacity)
  end
  local asked = {
    id = id, weight = weight, capacity = capacity, ttl = ttl, since = now, nonce = nonce,
    facts = facts,
  }
  local nobody_first = record.waiting == 0 and record.upgrading == NOBODY
  if nobody_first and holds.fits(weight, capacity) then
    step.grant(asked, CLAIMED, step.mint(ballot), nil)
    return holds.confirm(record.count - 1, ttl)
  end
  if wait == 0 then return struct.pack('<c1d', 'B', holds.time_left()) end
  if record.waiting >= MAX_WAITING then return 'RQ' end
  waiters.join(asked)
  holds.keep_until(now)
  return waiters.place(asked)
end))
