-- Raises the token of a hold, so that all nodes of a quorum have the same token, and confirms the
-- hold (model/commit.rs).
--
-- KEYS  1 the lock's record
-- ARGV  1 the prefix of the names of all inboxes
--       2 packed: retention (µs), attempt (24 bytes), token (µs), ttl (µs)
-- reply packed: now (µs), more (1), and one of
--       'G' granted: token (µs), deadline (µs), contended (1)
--       'N' not held: last token (µs, or 0)   'V' revoked: 1 (1)
--       'R' refused: 'B' ballot | 'V' version: found (4)   'X' the record is damaged
-- Numbers are little-endian doubles, or integers with the number of bytes in parentheses.
--@include clock

if not ARGV[2] or #ARGV[2] ~= 48 then return redis.error_reply('ARGUMENT 2 has a wrong length') end
local retention, id, token, ttl = struct.unpack('<dc24dd', ARGV[2])
if not (retention >= 0 and retention <= 1e15 and token >= 0 and ttl >= 0 and ttl <= 1e15) then
  return redis.error_reply('ARGUMENT 2 has a number out of range')
end
--@include publish
--@include native/record
--@include native/hold
--@include native/queue
--@include native/grant

local function commit(index)
  local hold = holds.hold_at(index)
  if hold.state == REVOKED then return struct.pack('<c1B', 'V', 1) end
  if hold.state == COOLDOWN then return holds.not_held() end
  if step.is_too_far_ahead(token) then return 'RB' end
  step.raise_token(hold, token)
  return holds.confirm(index, ttl)
end

return store.answer(store.run(KEYS[1], nil, function()
  step.sweep()
  local index = holds.live_hold(id)
  local reply = index and commit(index) or holds.not_held()
  step.promote(nil)
  return reply
end))
