-- Takes each lock, joins its queue, or replies that it is busy (model/acquire.rs). No name depends
-- on another.
--
-- KEYS  1 … n the locks' records, all different
-- ARGV  1 the prefix of the names of all inboxes
--       2 … n + 1 packed, for each key: retention (µs), attempt (24 bytes), weight (4),
--         capacity (4), ttl (µs), wait (1), nonce (8 bytes), not after (µs), ballot (µs, or 0 for
--         none), facts (the rest)
-- reply for one key, or a list for several: an error, or packed: now (µs), more (1), one of
--       'G' granted: token (µs), deadline (µs), contended (1)
--       'Q' queued: sequence, ahead (4), retry after (µs), the capacity in force if the
--         request is for another one, or 0 (4)
--       'B' busy: retry after (µs)   'L' late   'S' stale   'X' the record is damaged
--       'R' refused: 'B' ballot | 'M' mismatch: capacity (4) | 'Q' queue full
--         | 'V' version: found (4) | 'W' weight
-- Numbers are little-endian doubles, or integers with the number of bytes in parentheses.
--@include clock

local call, pack, read = redis.call, struct.pack, struct.unpack
local replies, states, missed = {}, {}, 0
-- The packed part that grants of this call share if they have the same ttl, weight and token.
local like_ttl, like_weight, like_token, hold, term, granted
local key, asked, retention, id, weight, capacity, ttl, wait, nonce, not_after, ballot, facts
for at = 1, #KEYS do
--@include native/acquire_request
  -- Spans are at most 31 years, so that no sum with `now` comes near 2^53, the limit of a double.
  -- An attempt with the id of nobody would cut the queue off.
  local attempt = read('<d', id, 17)
  if not (retention >= 0 and retention <= 1e15 and attempt >= 0 and attempt <= NEVER
      and id ~= NOBODY and ttl >= 0 and ttl <= 1e15 and not_after >= 0 and ballot >= 0) then
    return redis.error_reply('ARGUMENT ' .. at + 1 .. ' has a number out of range')
  end
  local state, reply = nil, nil
  if now > not_after then
    reply = struct.pack('<dBc1', now, 0, 'L')
  else
    state = redis.pcall('HGET', key, 's')
    if type(state) == 'table' then
      reply = state -- the key is of another type
    else
--@include fast/acquire
    end
  end
  replies[at], states[at] = reply, state
  if not reply then missed = missed + 1 end
end
--@include native/replied

--@include publish
--@include fast/waiters
--@include fast/join
--@include native/replied
--@include native/record
--@include native/hold
--@include native/queue
--@include native/grant

-- For a copy of an acquire that was granted, the same grant again.
local function acquire_again(index)
  local hold_state = holds.hold_at(index).state
  if hold_state == COOLDOWN or hold_state == REVOKED then return 'S' end
  local reply = holds.confirm(index, ttl)
  step.promote(nil)
  return reply
end

local function acquire()
  step.sweep()
  local index = holds.live_hold(id)
  if index then return acquire_again(index) end
  local waiter = waiters.waiting_of(id)
  if waiter then return step.wait_on(waiter, ttl) end
  if holds.is_finished(id) then return 'S' end
  if weight > capacity then return 'RW' end
  if step.is_too_far_ahead(ballot) then return 'RB' end
  step.promote(nil)
  if record.count == 0 and record.waiting == 0 then record.capacity = capacity end
  if not holds.is_same_kind(capacity) or wait == 0 and capacity ~= record.capacity then
    return struct.pack('<c1c1I4', 'R', 'M', record.capacity)
  end
  local waiter = {
    id = id, weight = weight, capacity = capacity, ttl = ttl, since = now, nonce = nonce,
    facts = facts,
  }
  if record.waiting == 0 and holds.fits(weight, capacity) then
    step.grant(waiter, CLAIMED, step.mint(ballot), nil)
    return holds.confirm(record.count - 1, ttl)
  end
  if wait == 0 then return struct.pack('<c1d', 'B', holds.time_left()) end
  if record.waiting >= MAX_WAITING then return 'RQ' end
  waiters.join(waiter)
  holds.keep_until(now)
  return waiters.place(waiter)
end

for at = 1, #KEYS do
  if not replies[at] then
--@include native/acquire_request
    replies[at] = store.run_apart(key, states[at], acquire)
  end
end
store.tell()
if #KEYS == 1 then return replies[1] end
return replies
