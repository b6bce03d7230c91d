#!lua
-- Takes the lock, or joins its queue, or says that it is busy (model/acquire.rs).
--
-- KEYS  1 the lock's record
-- ARGV  1 what all inboxes' names begin with
--       2 packed: retention (µs), attempt (24 bytes), weight (4), capacity (4), ttl (µs), wait (1),
--         nonce (8 bytes), not after (µs), ballot (µs, or 0 for none), facts (the rest)
-- reply packed: now (µs), more (1), and one of
--       'G' granted: token (µs), deadline (µs), contended (1)
--       'Q' queued: sequence, ahead (4), retry after (µs), the capacity in force if it asks for
--         another one, or 0 (4)
--       'B' busy: retry after (µs)   'L' late   'S' stale   'X' the record is damaged
--       'R' refused: 'B' ballot | 'M' mismatch: capacity (4) | 'Q' queue full
--         | 'V' version: found (4) | 'W' weight
-- Numbers are little-endian doubles, or integers of so many bytes.
--@include clock

if not ARGV[2] or #ARGV[2] < 73 then return redis.error_reply('ARGUMENT 2 is too short') end
local retention, id, weight, capacity, ttl, wait, nonce, not_after, ballot, facts =
  struct.unpack('<dc24I4I4dBc8dd', ARGV[2])
facts = string.sub(ARGV[2], facts)
-- Spans of at most 31 years, so that no sum with now comes near the 2^53 that a double holds.
if not (retention >= 0 and retention <= 1e15 and ttl >= 0 and ttl <= 1e15 and not_after >= 0
    and ballot >= 0) then
  return redis.error_reply('ARGUMENT 2 has a number out of range')
end
if now > not_after then return struct.pack('<dBc1', now, 0, 'L') end
local state = redis.call('HGET', KEYS[1], 's')

-- The most frequent case, before Lua has to build the functions of the general one, and with the
-- same result: nobody holds or awaits the name, and this client's attempts are not remembered.
if (not state and redis.call('HLEN', KEYS[1]) == 0 or state and #state == IDLE_BYTES)
    and weight <= capacity then
  local version, flags, last_token, collect_at, _ = VERSION, 0, 0, 0, nil
  if state then version, flags, _, _, last_token, collect_at = struct.unpack(IDLE, state) end
  local is_known = flags > 0 -- if only tombstones are there, one look tells
  if flags == 2 then
    local tombstones = redis.call('HGET', KEYS[1], 't')
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
    redis.call('HSET', KEYS[1], 's', struct.pack(HELD_BY_ONE, VERSION, flags, capacity,
      capacity, token, collect_at, 1, weight, 0, deadline, NEVER, ttl, NOBODY, id, weight, CLAIMED,
      token, now, deadline, ttl, 0, nonce) .. facts)
    if is_moved then
      redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', math.ceil(collect_at / 1000)))
    end
    return struct.pack('<dBc1ddB', now, 0, 'G', token, deadline, 0)
  end
end
--@include basics
--@include join

if state and #state >= HELD_BY_ONE_BYTES
    and string.sub(state, HELD_BY_ONE_AT, HELD_BY_ONE_AT + 23) ~= id then
  local reply = join_or_busy(state)
  if reply then return reply end
end
--@include record
--@include hold
--@include queue
--@include grant

-- A copy of an acquire that was granted: the same grant again.
local function acquire_again(index)
  local hold_state = holds.hold_at(index).state
  if hold_state == KEPT or hold_state == REVOKED then return 'S' end
  local reply = holds.confirm(index, ttl)
  step.promote(nil)
  return reply
end

return store.answer(store.run(KEYS[1], state, function()
  step.sweep()
  local index = holds.live_hold(id)
  if index then return acquire_again(index) end
  local waiter = waiters.waiting_of(id)
  if waiter then return step.wait_on(waiter, ttl) end
  if holds.is_finished(id) then return 'S' end
  if weight > capacity then return 'RW' end
  if step.is_too_far_ahead(ballot) then return 'RB' end
  step.promote(nil)
  if record.count == 0 and record.waiting == 0 then holds.begin_with(capacity) end
  if not holds.is_same_kind(capacity) or wait == 0 and not holds.admits(weight, capacity) then
    return struct.pack('<c1c1I4', 'R', 'M', record.capacity)
  end
  local asked = {
    id = id, weight = weight, capacity = capacity, ttl = ttl, since = now, nonce = nonce,
    facts = facts,
  }
  local nobody_first = record.waiting == 0 and record.upgrading == NOBODY
  if nobody_first and holds.fits(weight, capacity) then
    step.grant(asked, CLAIMED, step.mint(ballot), nil)
    return holds.confirm(record.count - 1, ttl)
  end
  if wait == 0 then return struct.pack('<c1d', 'B', holds.time_left()) end
  if record.waiting >= MAX_WAITING then return 'RQ' end
  waiters.join(asked)
  holds.keep_until(now)
  return waiters.place(asked)
end))
