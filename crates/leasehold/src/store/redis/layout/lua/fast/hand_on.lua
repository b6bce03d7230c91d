-- The fast path of a release that hands the lock over. The head of the queue and the next waiter
-- must be alive; the head's request must fit, and that of the next waiter must not. Returns the
-- reply, or nothing if there is anything unusual.
local function hand_on(state)
  local ALONE_FIELDS = struct.unpack(ALONE, state)
  if hold_state == COOLDOWN or hold_state == REVOKED or not (deadline > now) or version ~= VERSION
      or not (last_token < NEVER) or flags % 2 == 0
      or not (collect_at >= now + retention and collect_at <= NEVER) then
    return
  end
  local queue = redis.call('HGET', key, 'q')
  if not queue or #queue ~= QUEUE_BYTES then return end
  local waiting, last_sequence, head_sequence, head, tail = struct.unpack(QUEUE, queue)
  local waiter, last_seen, of_client = live_waiter(key, head)
  if not waiter then return end
  local _, before, after, held_weight, own_capacity, held_ttl, _, held_nonce, facts =
    struct.unpack(WAITER, waiter)
  if before ~= NOBODY or own_capacity ~= total or held_weight > total
      or not (held_ttl >= 0 and held_ttl <= NEVER) then
    return
  end

  local client, next_waiter = string.sub(head, 1, 16), nil
  if after ~= NOBODY then
    local of_next
    next_waiter, _, of_next = live_waiter(key, after)
    if not next_waiter or waiting < 2 then return end
    if string.sub(after, 1, 16) == client and of_next < 2 then return end
    local sequence, _, _, next_weight = struct.unpack(WAITER, next_waiter)
    if held_weight + next_weight <= total or not (sequence >= 0 and sequence <= NEVER) then
      return
    end
    head_sequence = sequence
  elseif waiting > 1 or tail ~= head then
    return
  end

  local token = math.max(now, last_token + 1, TOKEN_EPOCH + 1)
  local patience = math.max(last_seen + DEAD_AFTER, now + POLL_INTERVAL)
  local deadline = math.min(patience, now + math.min(CLAIM_WINDOW, held_ttl))
  if collect_at < deadline + retention then return end
  local last = pack(LAST, now, id)

  -- The facts of the last holder stay in their field.
  local facts_field = flags < 4 and 'g' or 'f'
  local flags = flags + (flags < 4 and 4 or -4) - (next_waiter and 0 or 1)
  local holder, hold_state, last_token, bound, since = head, UNCLAIMED, token, deadline, now
  local held, term = struct.pack(ALONE, ALONE_FIELDS), struct.pack(TERM, TERM_FIELDS)
  facts = string.sub(waiter, facts)
  if next_waiter then
    redis.call('HSET', key, 's', held, 'b', term, facts_field, facts, 'l', last,
      'q', struct.pack(QUEUE, waiting - 1, last_sequence,
      head_sequence, after, tail), 'w' .. after, string.sub(next_waiter, 1, 8) .. NOBODY
      .. string.sub(next_waiter, 33))
  else
    redis.call('HSET', key, 's', held, 'b', term, facts_field, facts, 'l', last)
    redis.call('HDEL', key, 'q')
  end
  if of_client > 1 then
    redis.call('HSET', key, 'c' .. client, struct.pack('<dI4', last_seen, of_client - 1))
    redis.call('HDEL', key, 'w' .. head)
  else
    redis.call('HDEL', key, 'w' .. head, 'c' .. client)
  end
  publish(head, struct.pack(GRANT_MESSAGE, 'G', struct.unpack('<d', head, 17), held_nonce, token,
    now, deadline))
  return struct.pack('<dBc1', now, 0, 'F')
end

for at = 1, #KEYS do
  local state = states[at]
  if not replies[at] and state and #state == ALONE_BYTES then
--@include native/release_request
    if cooldown == 0 and unanswered == 0
        and string.sub(state, HOLDER_AT, HOLDER_AT + 23) == id then
      replies[at] = hand_on(state)
      if replies[at] then missed = missed - 1 end
    end
  end
end
