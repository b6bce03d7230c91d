#!lua
-- A holder changes what it says of itself; everything else stays (model/describe.rs).
--
-- KEYS  1 the lock's record
-- ARGV  1 what all inboxes' names begin with
--       2 packed: retention (µs), attempt (24 bytes), facts (the rest)
-- reply packed: now (µs), more (1), and one of
--       'G' granted: token (µs), deadline (µs), contended (1)   'N' not held: last token (µs, or 0)
--       'V' revoked: 1 (1)   'R' refused: 'V' version: found (4)
-- Numbers are little-endian doubles, or integers of so many bytes.
--@include clock

if not ARGV[2] or #ARGV[2] < 32 then return redis.error_reply('ARGUMENT 2 has a wrong length') end
local retention, id, facts = struct.unpack('<dc24', ARGV[2])
if not (retention >= 0 and retention <= 1e15) then
  return redis.error_reply('ARGUMENT 2 has a number out of range')
end
--@include record
--@include hold
--@include queue
--@include grant

return answer(run(KEYS[1], redis.call('HGET', KEYS[1], 's'), function()
  sweep()
  local index = live_hold(id)
  local reply = not_held()
  if index then
    local hold = hold_at(index)
    if hold.state == REVOKED then
      reply = struct.pack('<c1B', 'V', 1)
    elseif hold.state ~= KEPT then
      hold.facts = string.sub(ARGV[2], facts)
      keep_until(now)
      reply = granted(hold)
    end
  end
  promote(nil)
  return reply
end))
