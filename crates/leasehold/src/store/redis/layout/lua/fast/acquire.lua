-- The fast path of an acquire, if nobody holds or awaits the name, and the record has no tombstone
-- of this attempt's client. Sets the reply.
if (not state and call('HLEN', key) == 0 or state and #state == HEAD_BYTES)
    and weight <= capacity then
  local version, flags, last_token, collect_at, facts_field, _ = VERSION, 0, 0, 0, 'f', nil
  if state then version, flags, _, last_token, collect_at = read(ALONE_HEAD, state) end
  local is_known = flags % 4 > 0 -- if only the flag of tombstones is set, they decide
  if flags % 4 == 2 then
    local tombstones = call('HGET', key, 't')
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
    if token ~= like_token or ttl ~= like_ttl or weight ~= like_weight then
      like_token, like_ttl, like_weight = token, ttl, weight
      hold = pack(ALONE_HOLD, weight, CLAIMED, now, deadline)
      term = pack(TERM_TIMES, deadline, ttl)
      granted = pack('<dBc1ddB', now, 0, 'G', token, deadline, 0)
    end
    if state then -- the facts of the last hold stay where they are
      if flags < 4 then flags, facts_field = flags + 4, 'g' else flags = flags - 4 end
    end
    call('HSET', key, 's', pack(ALONE_HEAD, version, flags, capacity, token, collect_at)
      .. id .. hold, 'b', term .. nonce, facts_field, facts)
    if is_moved then
      call('PEXPIREAT', key, string.format('%.0f', math.ceil(collect_at / 1000)))
    end
    reply = granted
  end
end
