-- The fast path of a release: this attempt alone holds, its time has not come, and nobody waits.
-- Sets the reply.
if state and #state >= HELD_BY_ONE_BYTES and cooldown == 0 and unanswered == 0
    and string.find(state, id, HELD_BY_ONE_AT, true) == HELD_BY_ONE_AT then
  local version, flags, _, _, last_token, collect_at, count = read(IDLE_AND_COUNT, state)
  local hold_state, _, _, deadline = read('<Bddd', state, HOLD_STATE_AT)
  if hold_state ~= COOLDOWN and deadline > now and version == VERSION and count == 1
      and last_token >= 0 and last_token < NEVER and flags % 2 == 0
      and collect_at >= now + retention and collect_at <= NEVER then
--@without_history     redis.call('HSET', key, 's', string.sub(state, 1, IDLE_BYTES))
--@without_history     reply = released
--@history    local field, ring = next_past(redis.call('HGET', key, 'p'))
--@history    if field then
--@history      redis.call('HSET', key, 's', string.sub(state, 1, IDLE_BYTES), 'p', ring, field,
--@history        pack_past(now, hold_state, BY_RELEASE, read('<I4', state, TOTAL_AT),
--@history          string.sub(state, HELD_BY_ONE_AT)))
--@history      reply = released
--@history    end
  end
end
