-- The fast path of a waiter, if another attempt holds alone, and the head of the queue is alive and
-- does not fit. Returns the reply, or nothing if there is anything unusual.
local function keep_place()
  if not term or #term ~= TERM_BYTES then return end
  local ALONE_FIELDS = struct.unpack(ALONE, state)
  local TERM_FIELDS = struct.unpack(TERM, term)
  if holder == id or version ~= VERSION or flags % 2 == 0
      or not (now < bound and bound <= now + held_ttl + CLAIM_WINDOW)
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
    if held_weight + weight <= total then return end
  elseif not is_blocked(KEYS[1], queue, held_weight, total) then
    return
  end
  local ahead = math.min(sequence - head_sequence, waiting - 1)
  if not (ahead >= 0 and of_client > 0) then return end
  redis.call('HSET', KEYS[1], 'c' .. client, struct.pack('<dI4', now, of_client))
  local retry_after = POLL_INTERVAL
  if ahead == 0 then retry_after = math.min(bound - now, retry_after) end
  return struct.pack('<c1dI4dI4', 'Q', sequence, ahead, retry_after, 0)
end

if state and #state == ALONE_BYTES then
  local reply = confirm_alone(KEYS[1], state, term, id, ttl) or keep_place()
  if reply then return struct.pack('<dB', now, 0) .. reply end
end
