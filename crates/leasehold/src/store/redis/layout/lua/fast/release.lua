-- The fast path of a release: this attempt alone holds, its time has not come, and nobody waits.
-- What it said of itself stays where it is, and is that of the last hold now. Sets the reply.
if state and #state == ALONE_BYTES and cooldown == 0 and unanswered == 0 then
  local ALONE_FIELDS = read(ALONE, state)
  if holder == id and hold_state ~= COOLDOWN and deadline > now and version == VERSION
      and last_token < NEVER and flags % 2 == 0
      and collect_at >= now + retention and collect_at <= NEVER then
    -- Most of both is there already, as it is packed.
    local ending = hold_state == REVOKED and pack(LAST_END, now, BY_REVOKE) or by_release
    call('HSET', key, 's', sub(state, 1, HEAD_BYTES), 'b', '', 'l',
      ending .. sub(state, HOLDER_AT, SINCE_END) .. sub(state, TOTAL_AT, TOKEN_END))
    reply = released
  end
end
