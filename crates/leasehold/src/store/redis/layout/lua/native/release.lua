-- Ends a hold and hands the lock on in the same step (model/release.rs).
--
-- KEYS  1 the lock's record
-- ARGV  1 what all inboxes' names begin with
--       2 packed: retention (µs), attempt (24 bytes), cooldown (µs, or 0), unanswered (1)
-- reply packed: now (µs), more (1), and one of
--       'F' released   'N' not held: last token (µs, or 0)
--       'R' refused: 'V' version: found (4)   'X' the record is damaged
-- Numbers are little-endian doubles, or integers of so many bytes.
--@include clock

if not ARGV[2] or #ARGV[2] ~= 41 then return redis.error_reply('ARGUMENT 2 has a wrong length') end
local retention, id, cooldown, unanswered = struct.unpack('<dc24dB', ARGV[2])
if not (retention >= 0 and retention <= 1e15 and cooldown >= 0 and cooldown <= 1e15) then
  return redis.error_reply('ARGUMENT 2 has a number out of range')
end
local state = redis.call('HGET', KEYS[1], 's')

--@include fast/release
--@include publish
--@include fast/waiters
--@include fast/hand_on
--@include native/record
--@include native/hold
--@include native/queue
--@include native/grant

-- The name stays taken, by nobody.
local function cool_down(hold, index)
  local deadline = now + cooldown
  hold.state, hold.ttl, hold.deadline = COOLDOWN, cooldown, deadline
  record.longest_ttl = math.max(record.longest_ttl, cooldown)
  holds.expect(index, deadline)
  if record.upgrading == id then record.upgrading = NOBODY end
  holds.keep_until(deadline)
end

return store.answer(store.run(KEYS[1], state, function()
  step.sweep()
  local index = holds.live_hold(id)
  if not index then
    if unanswered == 1 then holds.bury_attempt(id) end
    step.promote(nil)
    return holds.not_held()
  end
  local hold = holds.hold_at(index)
  if hold.state == COOLDOWN then return 'F' end
  if cooldown == 0 then
    holds.remove_hold(index)
  else
    cool_down(hold, index)
  end
  if unanswered == 1 then holds.bury_attempt(id) end
  holds.keep_until(now)
  step.promote(nil)
  return 'F'
end))
