-- Changes the facts of a hold (label and process), and nothing else (model/describe.rs).
--
-- KEYS  1 the lock's record
-- ARGV  1 the prefix of the names of all inboxes
--       2 packed: retention (µs), attempt (24 bytes), facts (the rest)
-- reply packed: now (µs), more (1), and one of
--       'G' granted: token (µs), deadline (µs), contended (1)   'N' not held: last token (µs, or 0)
--       'V' revoked: 1 (1)   'R' refused: 'V' version: found (4)   'X' the record is damaged
-- Numbers are little-endian doubles, or integers with the number of bytes in parentheses.
--@include clock

if not ARGV[2] or #ARGV[2] < 32 then return redis.error_reply('ARGUMENT 2 has a wrong length') end
local retention, id, facts = struct.unpack('<dc24', ARGV[2])
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
  local reply = holds.not_held()
  if index then
    local hold = holds.hold_at(index)
    if hold.state == REVOKED then
      reply = struct.pack('<c1B', 'V', 1)
    elseif hold.state ~= COOLDOWN then
      local said = string.sub(ARGV[2], facts)
      -- A late request that was sent before the lease was passed on changes nothing.
      if holds.passes_of(said) >= holds.passes_of(hold.facts) then hold.facts = said end
      holds.keep_until(now)
      reply = holds.granted(hold)
    end
  end
  step.promote(nil)
  return reply
end))
