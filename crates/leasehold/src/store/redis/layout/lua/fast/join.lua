-- The fast path of an acquire that has to wait. Another attempt must hold alone, no waiter can be
-- granted now, and this attempt is not known. Returns the reply, or nothing if there is anything
-- unusual.
local function join_or_busy(state)
  local ALONE_FIELDS = struct.unpack(ALONE, state)
  if holder == id or version ~= VERSION or total ~= capacity or weight > capacity
      or not (now + retention <= collect_at)
      or not (ballot <= math.max(now, last_token) + BALLOT_LEAD) then
    return
  end
  local waiter_field, client = 'w' .. id, string.sub(id, 1, 16)
  local fields = redis.call('HMGET', key, 'b', 'q', waiter_field, 'c' .. client, 't')
  local term, queue, known, seen, tombstones =
    fields[1], fields[2], fields[3], fields[4], fields[5]
  if known or flags % 4 >= 2
      and not (tombstones and not string.find(tombstones, client, 1, true)) then
    return
  end
  if not term or #term ~= TERM_BYTES then return end
  local TERM_FIELDS = struct.unpack(TERM, term)
  if not (now < bound and bound <= now + held_ttl + CLAIM_WINDOW) then return end
  if flags % 2 == 1 then
    if not is_blocked(key, queue, held_weight, capacity) then return end
  elseif held_weight + weight <= capacity then
    return
  end
  if wait == 0 then return struct.pack('<dBc1d', now, 0, 'B', bound - now) end

  local waiting, last_sequence, head_sequence, head, tail, linked = 0, 0, 1, id, NOBODY, nil
  local of_client = 0
  if flags % 2 == 1 then
    waiting, last_sequence, head_sequence, head, tail = struct.unpack(QUEUE, queue)
    linked = redis.call('HGET', key, 'w' .. tail)
    local tail_sequence = linked and #linked >= WAITER_BYTES and struct.unpack('<d', linked)
    if not tail_sequence or waiting >= MAX_WAITING or not (head_sequence >= 0
        and tail_sequence >= head_sequence and last_sequence >= tail_sequence
        and last_sequence < NEVER) then
      return
    end
  end
  if seen then
    if #seen ~= 12 then return end
    of_client = struct.unpack('<I4', seen, 9)
  end
  local sequence = last_sequence + 1
  local ahead = math.min(sequence - head_sequence, waiting)
  -- The other field to change: the waiter before this one, or the state, whose flag then says that
  -- somebody waits.
  local also, changed
  if linked then
    also, changed = 'w' .. tail, string.sub(linked, 1, 32) .. id .. string.sub(linked, 57)
  else
    also, changed = 's', struct.pack('<BB', VERSION, flags + 1) .. string.sub(state, 3)
  end
  redis.call('HSET', key,
    'q', struct.pack(QUEUE, waiting + 1, sequence, head_sequence, head, id),
    'c' .. client, struct.pack('<dI4', now, of_client + 1), waiter_field,
    struct.pack(WAITER, sequence, tail, NOBODY, weight, capacity, ttl, now, nonce) .. facts, also,
    changed)
  local retry_after = POLL_INTERVAL
  if ahead == 0 then retry_after = math.min(bound - now, retry_after) end
  return struct.pack('<dBc1dI4dI4', now, 0, 'Q', sequence, ahead, retry_after, 0)
end

for at = 1, #KEYS do
  local state = states[at]
  if not replies[at] and state and #state == ALONE_BYTES then
--@include native/acquire_request
    replies[at] = join_or_busy(state)
    if replies[at] then missed = missed - 1 end
  end
end
