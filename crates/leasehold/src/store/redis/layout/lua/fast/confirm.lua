-- The fast path of a holder that confirms or renews, if it holds alone, and no waiter can be
-- granted. Returns the reply, or nothing if there is anything unusual.
local function confirm_alone(key, state, term, id, ttl)
  if #state ~= ALONE_BYTES or not term or #term ~= TERM_BYTES then return end
  local ALONE_FIELDS = struct.unpack(ALONE, state)
  if holder ~= id then return end
  local TERM_FIELDS = struct.unpack(TERM, term)
  if version ~= VERSION
      or (hold_state ~= CLAIMED and hold_state ~= UNCLAIMED)
      or not (now < deadline and deadline <= now + held_ttl + CLAIM_WINDOW)
      or not (bound <= now + held_ttl + CLAIM_WINDOW)
      or not (collect_at <= NEVER and last_token <= NEVER) then
    return
  end
  if now >= bound then bound = deadline end -- as a sweep would do
  -- The ttl of the hold must stay the longest ttl of the record.
  if now + ttl > deadline then
    if ttl < held_ttl then return end
    deadline, held_ttl = now + ttl, ttl
  elseif ttl > held_ttl then
    return
  end
  if not (deadline + retention <= collect_at) then return end
  local is_awaited = flags % 2
  if is_awaited == 1
      and not is_blocked(key, redis.call('HGET', key, 'q'), held_weight, total) then
    return
  end
  hold_state = CLAIMED
  redis.call('HSET', key, 's', struct.pack(ALONE, ALONE_FIELDS),
    'b', struct.pack(TERM, TERM_FIELDS))
  return struct.pack('<c1ddB', 'G', last_token, deadline, is_awaited)
end
