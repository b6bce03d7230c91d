#!lua flags=allow-oom
-- Confirms a grant, or keeps a waiter's place; never joins a queue (model/poll.rs).
--
-- KEYS  1 the lock's record
-- ARGV  1 what all inboxes' names begin with
--       2 packed: retention (µs), attempt (24 bytes), ttl (µs)
-- reply packed: now (µs), more (1), and one of
--       'G' granted: token (µs), deadline (µs), contended (1)
--       'Q' queued: sequence, ahead (4), retry after (µs), the capacity in force if it asks for
--         another one, or 0 (4)
--       'O' gone   'R' refused: 'V' version: found (4)   'X' the record is damaged
-- Numbers are little-endian doubles, or integers of so many bytes.
--@include clock

if not ARGV[2] or #ARGV[2] ~= 40 then return redis.error_reply('ARGUMENT 2 has a wrong length') end
local retention, id, ttl = struct.unpack('<dc24d', ARGV[2])
if not (retention >= 0 and retention <= 1e15 and ttl >= 0 and ttl <= 1e15) then
  return redis.error_reply('ARGUMENT 2 has a number out of range')
end
local state = redis.call('HGET', KEYS[1], 's')

--@include basics
--@include confirm

-- The quick path of whoever waits: somebody else alone holds, and the head is alive and does not
-- fit.
local function keep_place()
  local version, flags, capacity, _, _, collect_at, count, used, _, bound, _, longest_ttl,
    upgrading =
    struct.unpack(HELD_BY_ONE, state)
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
  if own_capacity ~= capacity or weight > capacity then return end
  if head == id then
    if used + weight <= capacity then return end
  elseif not is_blocked(KEYS[1], queue, used, capacity) then
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
--@include record
--@include hold
--@include queue
--@include grant

return store.answer(store.run(KEYS[1], state, function()
  step.sweep()
  local index = holds.live_hold(id)
  if not index then
    local waiter = waiters.waiting_of(id)
    if waiter then return step.wait_on(waiter, ttl) end
    step.promote(nil)
    return 'O'
  end
  local state, reply = holds.hold_at(index).state, 'O'
  if state == CLAIMED or state == UNCLAIMED then reply = holds.confirm(index, ttl) end
  step.promote(nil)
  return reply
end))
