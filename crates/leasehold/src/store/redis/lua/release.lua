#!lua flags=allow-oom
-- Ends a hold and hands the lock on in the same step (model/release.rs).
--
-- KEYS  1 the lock's record
-- ARGV  1 what all inboxes' names begin with
--       2 packed: retention (µs), attempt (24 bytes), keep (µs, or 0), unanswered (1)
-- reply packed: now (µs), more (1), and one of
--       'F' released   'N' not held: last token (µs, or 0)
--       'R' refused: 'V' version: found (4)   'X' the record is damaged
-- Numbers are little-endian doubles, or integers of so many bytes.
--@include clock

if not ARGV[2] or #ARGV[2] ~= 41 then return redis.error_reply('ARGUMENT 2 has a wrong length') end
local retention, id, keep, unanswered = struct.unpack('<dc24dB', ARGV[2])
if not (retention >= 0 and retention <= 1e15 and keep >= 0 and keep <= 1e15) then
  return redis.error_reply('ARGUMENT 2 has a number out of range')
end
local state = redis.call('HGET', KEYS[1], 's')

-- The most frequent case, before Lua has to build the functions of the general one, and with the
-- same result: this attempt is the only one that holds, its time has not come, and nobody waits.
local is_awaited, capacity, last_token, collect_at = false, nil, nil, nil
if state and #state >= HELD_BY_ONE_BYTES and keep == 0 and unanswered == 0
    and string.sub(state, HELD_BY_ONE_AT, HELD_BY_ONE_AT + 23) == id then
  local version, flags, count, used, _, upgrading, weight, hold_state, deadline
  version, flags, capacity, last_token, collect_at, count, used, _, _, _, _, upgrading, _, weight,
    hold_state, _, _, deadline = struct.unpack(HELD_BY_ONE, state)
  if hold_state ~= KEPT and deadline > now and version == VERSION and count == 1
      and last_token >= 0 and last_token < NEVER and collect_at >= 0 and collect_at <= NEVER then
    if flags % 2 == 0 and collect_at >= now + retention then
      redis.call('HSET', KEYS[1], 's', struct.pack(IDLE, VERSION, flags, capacity, last_token,
        collect_at))
      return struct.pack('<dBc1', now, 0, 'F')
    end
    is_awaited = flags % 2 == 1 and upgrading == NOBODY and used == weight
  end
end
--@include basics

-- Likewise the usual hand-over: the head of the queue is alive and fits, and the next one does not.
local function hand_on()
  local queue = redis.call('HGET', KEYS[1], 'q')
  if not queue or #queue ~= QUEUE_BYTES then return end
  local waiting, last_sequence, head_sequence, head, tail = struct.unpack(QUEUE, queue)
  local waiter, last_seen, of_client = live_waiter(KEYS[1], head)
  if not waiter then return end
  local _, before, after, weight, ttl, _, nonce, facts = struct.unpack(WAITER, waiter)
  if before ~= NOBODY or weight > capacity or not (ttl >= 0 and ttl <= NEVER) then return end

  local client, next_waiter = string.sub(head, 1, 16), nil
  if after ~= NOBODY then
    local of_next
    next_waiter, _, of_next = live_waiter(KEYS[1], after)
    if not next_waiter or waiting < 2 then return end
    if string.sub(after, 1, 16) == client and of_next < 2 then return end
    local sequence, _, _, next_weight = struct.unpack(WAITER, next_waiter)
    if weight + next_weight <= capacity or not (sequence >= 0 and sequence <= NEVER) then return end
    head_sequence = sequence
  elseif waiting > 1 or tail ~= head then
    return
  end

  -- From here on it is decided, and written.
  local token = math.max(now, last_token + 1, TOKEN_EPOCH + 1)
  local patience = math.max(last_seen + DEAD_AFTER, now + POLL_INTERVAL)
  local deadline = math.min(patience, now + math.min(CLAIM_WINDOW, ttl))
  local kept = kept_until(kept_until(collect_at, now), deadline)
  local held = struct.pack(HELD_BY_ONE, VERSION, string.byte(state, 2) - (next_waiter and 0 or 1),
    capacity, token, kept, 1, weight, 0, deadline, NEVER, ttl, NOBODY, head, weight, UNCLAIMED,
    token, now, deadline, ttl, nonce) .. string.sub(waiter, facts)
  if next_waiter then
    redis.call('HSET', KEYS[1], 's', held, 'q', struct.pack(QUEUE, waiting - 1, last_sequence,
      head_sequence, after, tail), 'w' .. after, string.sub(next_waiter, 1, 8) .. NOBODY
      .. string.sub(next_waiter, 33))
  else
    redis.call('HSET', KEYS[1], 's', held)
    redis.call('HDEL', KEYS[1], 'q')
  end
  if of_client > 1 then
    redis.call('HSET', KEYS[1], 'c' .. client, struct.pack('<dI4', last_seen, of_client - 1))
    redis.call('HDEL', KEYS[1], 'w' .. head)
  else
    redis.call('HDEL', KEYS[1], 'w' .. head, 'c' .. client)
  end
  if kept ~= collect_at then collect_key(KEYS[1], kept) end
  publish(head, struct.pack(GRANT_MESSAGE, 'G', struct.unpack('<d', head, 17), nonce, token, now,
    deadline))
  return struct.pack('<dBc1', now, 0, 'F')
end

if is_awaited then
  local reply = hand_on()
  if reply then return reply end
end
--@include record
--@include hold
--@include queue
--@include grant

-- The name stays taken, by nobody.
local function keep_hold(hold, index)
  local deadline = now + keep
  hold.state, hold.ttl, hold.deadline = KEPT, keep, deadline
  record.longest_ttl = math.max(record.longest_ttl, keep)
  holds.expect(index, deadline)
  if record.upgrading == id then record.upgrading = NOBODY end
  holds.keep_until(deadline)
end

return store.answer(store.run(KEYS[1], state, function()
  step.sweep()
  local index = holds.live_hold(id)
  if not index then
    if unanswered == 1 then holds.bury_attempt(id) end
    step.promote(nil)
    return holds.not_held()
  end
  local hold = holds.hold_at(index)
  if hold.state == KEPT then return 'F' end
  if keep == 0 then
    holds.remove_hold(index)
  else
    keep_hold(hold, index)
  end
  if unanswered == 1 then holds.bury_attempt(id) end
  holds.keep_until(now)
  step.promote(nil)
  return 'F'
end))
