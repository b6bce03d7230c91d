-- Ends only the hold that the operator has seen (model/revoke.rs).
--
-- KEYS  1 the lock's record
-- ARGV  1 the prefix of the names of all inboxes
--       2 packed: retention (µs), attempt (24 bytes), token (µs), token (8 bytes), force (1)
-- reply packed: now (µs), more (1), and one of
--       'V' revoked: whether that token was held (1)
--       'R' refused: 'V' version: found (4)   'X' the record is damaged
-- Numbers are little-endian doubles, or integers with the number of bytes in parentheses.
--@include clock

if not ARGV[2] or #ARGV[2] ~= 49 then return redis.error_reply('ARGUMENT 2 has a wrong length') end
local retention, id, token_us, token, force = struct.unpack('<dc24dc8B', ARGV[2])
if not (retention >= 0 and retention <= 1e15) then
  return redis.error_reply('ARGUMENT 2 has a number out of range')
end
--@include publish
--@include native/record
--@include native/hold
--@include native/queue
--@include native/grant

return store.answer(store.run(KEYS[1], nil, function()
  step.sweep()
  local index = holds.live_hold(id)
  local hold = index and holds.hold_at(index)
  local first, second = string.byte(token, 7, 8)
  local passes = first % 16 * 256 + second -- the low 12 bits
  if not hold or hold.token ~= token_us or passes < holds.passes_of(hold.facts) then
    step.promote(nil)
    return struct.pack('<c1B', 'V', 0)
  end
  local is_cooldown = hold.state == COOLDOWN
  -- A cooldown has no holder who could be asked to release.
  local forced = force == 1 or is_cooldown
  if forced then
    holds.leave_tombstone(holds.remove_hold(index).id, hold.deadline)
  else
    hold.state = REVOKED
  end
  if not is_cooldown then
    step.send(id, struct.pack('<c1dc8c8B', 'R', holds.attempt_of(id), hold.nonce, token,
      forced and 1 or 0))
  end
  holds.keep_until(now)
  step.promote(nil)
  return struct.pack('<c1B', 'V', 1)
end))
