-- Gives a lease back to a holder, by its token, if this server has forgotten the lease or let it
-- expire (model/reclaim.rs).
--
-- KEYS  1 the lock's record
-- ARGV  1 the prefix of the names of all inboxes
--       2 packed: retention (µs), attempt (24 bytes), weight (4), capacity (4), token (µs),
--         ttl (µs), nonce (8 bytes), not after (µs), facts (the rest)
-- reply packed: now (µs), more (1), and one of
--       'G' granted: token (µs), deadline (µs), contended (1)   'L' late
--       'N' not held: last token (µs, or 0)   'V' revoked: 1 (1)
--       'R' refused: 'B' ballot | 'M' mismatch: capacity (4) | 'V' version: found (4) | 'W' weight
--       'X' the record is damaged
-- Numbers are little-endian doubles, or integers with the number of bytes in parentheses.
--@include clock

if not ARGV[2] or #ARGV[2] < 72 then return redis.error_reply('ARGUMENT 2 is too short') end
local retention, id, weight, capacity, token, ttl, nonce, not_after, facts =
  struct.unpack('<dc24I4I4ddc8d', ARGV[2])
facts = string.sub(ARGV[2], facts)
local attempt = struct.unpack('<d', id, 17)
if not (retention >= 0 and retention <= 1e15 and attempt >= 0 and attempt <= NEVER
    and id ~= NOBODY and token >= 0 and ttl >= 0 and ttl <= 1e15 and not_after >= 0) then
  return redis.error_reply('ARGUMENT 2 has a number out of range')
end
if now > not_after then return struct.pack('<dBc1', now, 0, 'L') end
--@include publish
--@include native/record
--@include native/hold
--@include native/queue
--@include native/grant

-- The attempt's own hold, if it matches the claim and nobody has ended it.
local function held_to_reclaim()
  local index = holds.hold_of(id)
  if not index then return nil end
  local hold = holds.hold_at(index)
  if hold.state ~= COOLDOWN and hold.state ~= REVOKED and hold.weight == weight
      and record.capacity == capacity then
    return index
  end
end

local function reclaim_forgotten()
  if weight > capacity then return 'RW' end
  local is_idle = record.count == 0 and record.waiting == 0
  if not is_idle and capacity ~= record.capacity then
    return struct.pack('<c1c1I4', 'R', 'M', record.capacity)
  end
  local is_overtaken = weight == LOCK_CAPACITY and record.last_token >= token
  local fits = record.waiting == 0 and (is_idle or holds.fits(weight, capacity))
  if is_overtaken or holds.is_finished(id) or not fits then return holds.not_held() end
  if is_idle then record.capacity = capacity end
  record.last_token = math.max(record.last_token, token)
  step.grant({
    id = id, weight = weight, ttl = ttl, nonce = nonce, facts = facts,
  }, CLAIMED, token, nil)
  return holds.confirm(record.count - 1, ttl)
end

return store.answer(store.run(KEYS[1], nil, function()
  if step.is_too_far_ahead(token) then return 'RB' end
  local index, reply = held_to_reclaim(), nil
  if index then
    -- This comes before the sweep that ends holds by time: a hold that is still here has kept all
    -- others out.
    local hold = holds.hold_at(index)
    holds.clamp(hold)
    step.raise_token(hold, token)
    reply = holds.confirm(index, ttl)
    holds.expect(index, hold.deadline)
    step.sweep()
  else
    step.sweep()
    index = holds.live_hold(id)
    if index and holds.hold_at(index).state == REVOKED then
      reply = struct.pack('<c1B', 'V', 1)
    elseif index then
      reply = holds.not_held()
    else
      reply = reclaim_forgotten()
    end
  end
  step.promote(nil)
  return reply
end))
