-- The fast path of a release: this attempt alone holds, its time has not come, and nobody waits.
local is_awaited = false
local HELD_BY_ONE_FIELDS
if state and #state >= HELD_BY_ONE_BYTES and cooldown == 0 and unanswered == 0
    and string.sub(state, HELD_BY_ONE_AT, HELD_BY_ONE_AT + 23) == id then
  HELD_BY_ONE_FIELDS = struct.unpack(HELD_BY_ONE, state)
  if hold_state ~= COOLDOWN and deadline > now and version == VERSION and count == 1
      and last_token >= 0 and last_token < NEVER
      and collect_at >= now + retention and collect_at <= NEVER then
    if flags % 2 == 0 then
      redis.call('HSET', KEYS[1], 's', string.sub(state, 1, IDLE_BYTES))
      return struct.pack('<dBc1', now, 0, 'F')
    end
    is_awaited = upgrading == NOBODY and used == held_weight
  end
end
