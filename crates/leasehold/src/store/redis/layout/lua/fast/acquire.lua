-- The fast path of an acquire: nobody holds or awaits the name, and no attempt of this client is
-- remembered. Sets the reply.
if (not state and redis.call('HLEN', key) == 0 or state and #state == IDLE_BYTES)
    and weight <= capacity then
  local version, flags, last_token, collect_at, _ = VERSION, 0, 0, 0, nil
  if state then version, flags, _, _, last_token, collect_at = struct.unpack(IDLE, state) end
  local is_known = flags > 0 -- if only tombstones are there, they tell
  if flags == 2 then
    local tombstones = redis.call('HGET', key, 't')
    is_known = not tombstones or string.find(tombstones, string.sub(id, 1, 16), 1, true)
  end
  if version == VERSION and not is_known and last_token >= 0 and last_token < NEVER
      and collect_at >= 0 and collect_at <= NEVER
      and ballot <= math.max(now, last_token) + BALLOT_LEAD then
    local token, deadline = now, now + ttl
    if ballot > 0 then token = math.max(ballot, now - BALLOT_LEAD) end
    if token <= last_token then token = last_token + 1 end
    if token <= TOKEN_EPOCH then token = TOKEN_EPOCH + 1 end
    local is_moved = collect_at < deadline + retention
    if is_moved then collect_at = deadline + retention + math.floor(retention / 2) end
    local total, asked, holder, held_weight, hold_state = capacity, capacity, id, weight, CLAIMED
    local held_ttl, held_nonce = ttl, nonce
--@include fast/granted
    redis.call('HSET', key, 's', struct.pack(HELD_BY_ONE, HELD_BY_ONE_FIELDS) .. facts)
    if is_moved then
      redis.call('PEXPIREAT', key, string.format('%.0f', math.ceil(collect_at / 1000)))
    end
    reply = struct.pack('<dBc1ddB', now, 0, 'G', token, deadline, 0)
  end
end
