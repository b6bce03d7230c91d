-- The fast path of a release, if this attempt holds alone, its time is not over, and nobody waits.
-- Its facts stay in their field, and are now those of the last hold. Sets the reply.
if state and #state == ALONE_BYTES and cooldown == 0 and unanswered == 0 then
  local ALONE_FIELDS = read(ALONE, state)
  if holder == id and hold_state ~= COOLDOWN and deadline > now and version == VERSION
      and last_token < NEVER and flags % 2 == 0
      and collect_at >= now + retention and collect_at <= NEVER then
    -- Most bytes of the new state and of the last hold are copied from the packed state.
    local ending = hold_state == REVOKED and pack(LAST_END, now, BY_REVOKE) or by_release
    call('HSET', key, 's', sub(state, 1, HEAD_BYTES), 'b', '', 'l',
      ending .. sub(state, HOLDER_AT, SINCE_END) .. sub(state, TOTAL_AT, TOKEN_END))
    reply = released
  end
end
