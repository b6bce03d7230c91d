-- The fast path of a release, if this attempt holds alone, its time is not over, and nobody waits.
-- Its facts stay in their field, and are now those of the last hold. Sets the reply.
if state and #state == ALONE_BYTES and cooldown == 0 and unanswered == 0 then
  local ALONE_FIELDS = read(ALONE, state)
  if holder == id and hold_state ~= COOLDOWN and hold_state ~= REVOKED and deadline > now
      and version == VERSION and last_token < NEVER and flags % 2 == 0
      and collect_at >= now + retention and collect_at <= NEVER then
    call('HSET', key, 's', sub(state, 1, HEAD_BYTES), 'b', '', 'l', pack(LAST, now, id))
    reply = released
  end
end
