-- The fast path of a waiter: another attempt alone holds, and the head of the queue is alive and
-- does not fit. Gives the reply, or nothing if there is anything unusual.
local function keep_place()
  local HELD_BY_ONE_FIELDS = struct.unpack(HELD_BY_ONE, state)
  if version ~= VERSION or flags % 2 == 0 or count ~= 1 or upgrading ~= NOBODY
      or not (now < bound and bound <= now + longest_ttl + CLAIM_WINDOW)
      or not (now + retention <= collect_at) then
    return
  end
  local client = string.sub(id, 1, 16)
  local fields = redis.call('HMGET', KEYS[1], 'q', 'w' .. id, 'c' .. client)
  local queue, waiter, seen = fields[1], fields[2], fields[3]
  if not queue or #queue ~= QUEUE_BYTES or not waiter or #waiter < WAITER_BYTES
      or not seen or #seen ~= 12 then
    return
  end
  local waiting, _, head_sequence, head = struct.unpack(QUEUE, queue)
  local sequence, _, _, weight, own_capacity = struct.unpack(WAITER, waiter)
  local of_client = struct.unpack('<I4', seen, 9)
  if own_capacity ~= total or weight > total then return end
  if head == id then
    if used + weight <= total then return end
  elseif not is_blocked(KEYS[1], queue, used, total) then
    return
  end
  local ahead = math.min(sequence - head_sequence, waiting - 1)
  if not (ahead >= 0 and of_client > 0) then return end
  redis.call('HSET', KEYS[1], 'c' .. client, struct.pack('<dI4', now, of_client))
  local retry_after = POLL_INTERVAL
  if ahead == 0 then retry_after = math.min(bound - now, retry_after) end
  return struct.pack('<c1dI4dI4', 'Q', sequence, ahead, retry_after, 0)
end

if state and #state >= HELD_BY_ONE_BYTES then
  local reply = confirm_alone(KEYS[1], state, id, ttl)
  if not reply and string.sub(state, HELD_BY_ONE_AT, HELD_BY_ONE_AT + 23) ~= id then
    reply = keep_place()
  end
  if reply then return struct.pack('<dB', now, 0) .. reply end
end
