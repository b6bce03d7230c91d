-- Gives the first adopter the hold of a lease that was handed out (model/adopt.rs).
--
-- KEYS  1 the lock's record
-- ARGV  1 the prefix of the names of all inboxes
--       2 packed: retention (µs), attempt (24 bytes), the attempt that handed it out (24 bytes),
--         weight (4), capacity (4), token (µs, or 0 for any), ttl (µs), nonce (8 bytes),
--         not after (µs), ballot (µs, or 0 for none), facts (the rest)
-- reply packed: now (µs), more (1), and one of
--       'G' granted: token (µs), deadline (µs), contended (1)   'L' late   'S' stale
--       'N' not held: last token (µs, or 0)   'V' revoked: 1 (1)
--       'R' refused: 'B' ballot | 'V' version: found (4)   'X' the record is damaged
-- Numbers are little-endian doubles, or integers with the number of bytes in parentheses.
--@include clock

if not ARGV[2] or #ARGV[2] < 104 then return redis.error_reply('ARGUMENT 2 is too short') end
local retention, id, from, weight, capacity, token, ttl, nonce, not_after, ballot, facts =
  struct.unpack('<dc24c24I4I4ddc8dd', ARGV[2])
facts = string.sub(ARGV[2], facts)
local attempt = struct.unpack('<d', id, 17)
if not (retention >= 0 and retention <= 1e15 and attempt >= 0 and attempt <= NEVER
    and id ~= NOBODY and token >= 0 and ttl >= 0 and ttl <= 1e15
    and not_after >= 0 and ballot >= 0) then
  return redis.error_reply('ARGUMENT 2 has a number out of range')
end
if now > not_after then return struct.pack('<dBc1', now, 0, 'L') end
--@include publish
--@include native/record
--@include native/hold
--@include native/queue
--@include native/grant

-- For a copy of an adoption that was done, the same grant again.
local function adopt_again(index)
  local state = holds.hold_at(index).state
  if state == REVOKED then return struct.pack('<c1B', 'V', 1) end
  if state == COOLDOWN then return holds.not_held() end
  return holds.confirm(index, ttl)
end

-- The hold of the lease, if it has not changed since the lease was handed out, or nil.
local function handed_out()
  local index = holds.live_hold(from)
  if not index then return nil end
  local hold = holds.hold_at(index)
  if hold.state ~= COOLDOWN and hold.weight == weight and record.capacity == capacity
      and (token == 0 or hold.token == token) then
    return index
  end
end

local function take_over()
  if waiters.waiting_of(id) or holds.is_finished(id) then return 'S' end
  local index = handed_out()
  if not index then return holds.not_held() end
  local hold = holds.hold_at(index)
  if hold.state == REVOKED then return struct.pack('<c1B', 'V', 1) end
  if step.is_too_far_ahead(ballot) then return 'RB' end
  if index > 0 then
    holds.put_index(from, 0)
    holds.put_index(id, index)
  end
  hold.id, hold.token, hold.since = id, step.mint(ballot), now
  hold.nonce, hold.facts = nonce, facts
  holds.leave_tombstone(from)
  return holds.confirm(index, ttl)
end

return store.answer(store.run(KEYS[1], nil, function()
  step.sweep()
  local index = holds.live_hold(id)
  local reply = index and adopt_again(index) or take_over()
  step.promote(nil)
  return reply
end))
