-- The fast path of a release: this attempt alone holds, its time has not come, and nobody waits.
-- What it said of itself stays where it is, and is that of the last hold now. Sets the reply.
if state and #state == ALONE_BYTES and cooldown == 0 and unanswered == 0 then
  local ALONE_FIELDS = read(ALONE, state)
  if holder == id and hold_state ~= COOLDOWN and deadline > now and version == VERSION
      and last_token < NEVER and flags % 2 == 0
      and collect_at >= now + retention and collect_at <= NEVER then
    call('HSET', key, 's', pack(IDLE, version, flags, total, total, last_token, collect_at),
      'b', '', 'l', pack(LAST, now, hold_state == REVOKED and BY_REVOKE or BY_RELEASE, total, id,
      held_weight, hold_state, last_token, since))
    reply = released
  end
end
