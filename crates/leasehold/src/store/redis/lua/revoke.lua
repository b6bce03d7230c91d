#!lua flags=allow-oom
-- An operator ends the hold that he saw, and no other (model/revoke.rs).
--
-- KEYS  1 the lock's record
-- ARGV  1 what all inboxes' names begin with   2 retention, µs
--       3 attempt, 24 bytes   4 token, µs   5 token, 8 bytes   6 force, 0 or 1
-- reply now, more, and one of
--       'revoked', 0 | 1   'refused', 'version', found
--@include clock
--@include arguments
--@include record
--@include hold
--@include queue
--@include grant

local id, token_us = bytes(3, 24), number(4, TIME_MAX)
local token, force = bytes(5, 8), ARGV[6] == '1'

return answer(run(KEYS[1], nil, function()
  sweep()
  local index = live_hold(id)
  local hold = index and hold_at(index)
  if not hold or hold.token ~= token_us then
    promote(nil)
    return { 'revoked', 0 }
  end
  local was_kept = hold.state == KEPT
  -- What is kept is held by nobody, so nobody has to be asked.
  local forced = force or was_kept
  if forced then
    expire(index)
  else
    hold.state = REVOKED
    -- Else the reader would become the writer all the same, with a token that nobody saw.
    if record.upgrading == id then record.upgrading = NOBODY end
  end
  if not was_kept then
    tell(id, struct.pack('<c1dc8c8B', 'R', attempt_of(id), hold.nonce, token, forced and 1 or 0))
  end
  keep_until(now)
  promote(nil)
  return { 'revoked', 1 }
end))
