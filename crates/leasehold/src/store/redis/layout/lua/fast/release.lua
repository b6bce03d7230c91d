-- The fast path of a release: this attempt alone holds, its time has not come, and nobody waits.
-- Sets the reply.
if state and #state >= HELD_BY_ONE_BYTES and cooldown == 0 and unanswered == 0
    and string.find(state, id, HELD_BY_ONE_AT, true) == HELD_BY_ONE_AT then
  local version, flags, total, _, last_token, collect_at, count = read(IDLE_AND_COUNT, state)
  local hold_state, _, _, deadline = read('<Bddd', state, HOLD_STATE_AT)
  if hold_state ~= COOLDOWN and deadline > now and version == VERSION and count == 1
      and last_token >= 0 and last_token < NEVER and flags % 2 == 0
      and collect_at >= now + retention and collect_at <= NEVER then
    call('HSET', key, 's', string.sub(state, 1, IDLE_BYTES), 'l',
      pack('<dBI4', now, hold_state == REVOKED and BY_REVOKE or BY_RELEASE, total)
      .. string.sub(state, HELD_BY_ONE_AT, HELD_BY_ONE_AT + KEPT_BYTES - 1)
      .. string.sub(state, HELD_BY_ONE_BYTES + 1))
    reply = released
  end
end
