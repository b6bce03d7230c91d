-- The fast path of a holder that confirms or renews: it holds alone, and nobody can be granted.
-- Gives the reply, or nothing if there is anything unusual. With `believed`, the weight and the
-- change that the holder believes in must be those of the hold.
local function confirm_alone(key, state, id, ttl, believed)
  if #state < HELD_BY_ONE_BYTES
      or string.sub(state, HELD_BY_ONE_AT, HELD_BY_ONE_AT + 23) ~= id then
    return
  end
  local HELD_BY_ONE_FIELDS, facts = struct.unpack(HELD_BY_ONE, state)
  if version ~= VERSION or count ~= 1 or upgrading ~= NOBODY
      or believed and (believed.weight ~= held_weight or believed.change ~= change)
      or (hold_state ~= CLAIMED and hold_state ~= UNCLAIMED)
      or not (now < deadline and deadline <= now + held_ttl + CLAIM_WINDOW)
      or not (bound <= now + longest_ttl + CLAIM_WINDOW)
      or not (collect_at <= NEVER and last_token >= 0 and last_token <= NEVER
        and token >= 0 and token <= NEVER and change >= 0 and change <= NEVER) then
    return
  end
  if now >= bound then -- what a sweep finds
    if cursor ~= 0 or running ~= NEVER then return end
    bound = deadline
  end
  if now + ttl > deadline then
    deadline, held_ttl = now + ttl, ttl
  end
  if not (deadline + retention <= collect_at) then return end
  local is_awaited = flags % 2
  if is_awaited == 1
      and not is_blocked(key, redis.call('HGET', key, 'q'), used, total) then
    return
  end
  hold_state, longest_ttl = CLAIMED, math.max(longest_ttl, ttl)
  redis.call('HSET', key, 's', struct.pack(HELD_BY_ONE, HELD_BY_ONE_FIELDS)
    .. string.sub(state, facts))
  return struct.pack('<c1ddB', 'G', token, deadline, is_awaited)
end
