-- The fast path of a release: this attempt alone holds, its time has not come, and nobody waits.
-- Sets the reply.
if state and #state >= HELD_BY_ONE_BYTES and cooldown == 0 and unanswered == 0
    and string.find(state, id, HELD_BY_ONE_AT, true) == HELD_BY_ONE_AT then
  local version, flags, _, _, last_token, collect_at, count = read(IDLE_AND_COUNT, state)
  local hold_state, _, _, deadline = read('<Bddd', state, HOLD_STATE_AT)
--@history  local HELD_BY_ONE_FIELDS = struct.unpack(HELD_BY_ONE, state)
--@history  local past = add_past(redis.call('HGET', key, 'p'), pack_past(holder, held_weight,
--@history    total, hold_state, token, since, now, string.sub(state, HELD_BY_ONE_BYTES + 1),
--@history    BY_RELEASE))
  if hold_state ~= COOLDOWN and deadline > now and version == VERSION and count == 1
      and last_token >= 0 and last_token < NEVER and flags % 2 == 0
--@history      and past
      and collect_at >= now + retention and collect_at <= NEVER then
    redis.call('HSET', key, 's', string.sub(state, 1, IDLE_BYTES))
--@history    redis.call('HSET', key, 'p', past)
    reply = released
  end
end
