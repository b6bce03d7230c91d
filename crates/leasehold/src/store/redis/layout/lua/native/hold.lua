-- Holds and tombstones, and how long they are kept (model/mod.rs, model/record.rs).

local holds
holds = {
  client_of = function(id)
    return string.sub(id, 1, 16)
  end,

  -- How often a lease was passed on inside its process, read from its facts (codec.rs).
  passes_of = function(facts)
    return #facts < 6 and 0 or (struct.unpack('<I2', facts, 5))
  end,

  attempt_of = function(id)
    local attempt = struct.unpack('<d', id, 17)
    store.check_times(attempt, 0, 0, 0)
    return attempt
  end,

  -- Keeps the record until `time` plus the retention. The key's time to live gets half a retention
  -- more, so that most steps need not change it.
  keep_until = function(time)
    local needed = math.max(time, now) + retention
    if record.collect_at < needed then
      record.collect_at = needed + math.floor(retention / 2)
    end
  end,

  hold_at = function(index)
    local hold = record.holds[index]
    if not hold then
      local raw = store.get('h' .. struct.pack('<I4', index))
      if not raw then store.corrupt() end
      hold = store.unpack_hold(raw, 1)
      record.holds[index] = hold
    end
    return hold
  end,

  put_index = function(id, index) -- the hold at index 0 needs no such field
    record.changed['i' .. id] = index > 0 and struct.pack('<I4', index)
  end,

  -- The index of an attempt's hold, or nil.
  hold_of = function(id)
    if record.count > 0 and record.holds[0].id == id then return 0 end
    if record.count < 2 then return nil end
    local raw = store.get('i' .. id)
    if not raw then return nil end
    local index = #raw == 4 and struct.unpack('<I4', raw)
    if not index or index >= record.count or holds.hold_at(index).id ~= id then
      store.corrupt()
    end
    return index
  end,

  add_hold = function(hold)
    record.bound = math.min(record.bound, hold.deadline)
    record.longest_ttl = math.max(record.longest_ttl, hold.ttl)
    record.used = record.used + hold.weight
    record.holds[record.count] = hold
    if record.count > 0 then holds.put_index(hold.id, record.count) end
    record.count = record.count + 1
  end,

  -- Removes a hold. The hold with the highest index takes its place.
  remove_hold = function(index)
    local removed, last = holds.hold_at(index), record.count - 1
    local moved = holds.hold_at(last)
    record.count = last
    record.used = record.used - removed.weight
    record.holds[last] = nil
    if index > 0 then holds.put_index(removed.id, 0) end
    if last > 0 then record.changed['h' .. struct.pack('<I4', last)] = false end
    if index < last then
      moved.raw = nil
      record.holds[index] = moved
      holds.put_index(moved.id, index)
      if index < record.cursor then
        -- The sweep has not reached the old index yet, but is already past the new one.
        record.running = math.min(record.running, moved.deadline)
      end
    end
    if last == 0 then
      record.cursor, record.bound, record.running, record.longest_ttl = 0, NEVER, NEVER, 0
    end
    record.cursor = math.min(record.cursor, last)
    return removed
  end,

  -- Lowers the bounds of the deadlines to that of a hold, if that is earlier.
  expect = function(index, deadline)
    record.bound = math.min(record.bound, deadline)
    if index < record.cursor then record.running = math.min(record.running, deadline) end
  end,

  -- The deadline, brought back to what the ttl allows if the server's clock went back.
  clamp = function(hold)
    hold.deadline = math.min(hold.deadline, now + hold.ttl + CLAIM_WINDOW)
    return hold.deadline
  end,

  tombstones = function()
    if not record.has_tombstones then return '' end
    local raw = store.get('t')
    if not raw or #raw % TOMBSTONE_BYTES ~= 0 then store.corrupt() end
    return raw
  end,

  -- Whether an attempt has ended, and whether an operator ended its hold by force.
  is_finished = function(id)
    local raw, at = holds.tombstones(), 0
    repeat
      at = string.find(raw, holds.client_of(id), at + 1, true)
    until not at or at % TOMBSTONE_BYTES == 1
    if not at then return false end
    local _, attempt, over = struct.unpack(TOMBSTONE, raw, at)
    if math.abs(over) <= now then return false end
    return attempt >= holds.attempt_of(id), over < 0 and attempt == holds.attempt_of(id)
  end,

  -- Leaves a tombstone for an attempt. If an operator ended its hold by force, `deadline` is that
  -- of the hold.
  leave_tombstone = function(id, deadline)
    local client, attempt = holds.client_of(id), holds.attempt_of(id)
    local is_revoked = deadline ~= nil
    local needed = math.max(now + TOMBSTONE_LIFE, deadline or 0)
    local forget_at = needed
    local raw, kept = holds.tombstones(), {}
    for at = 1, #raw, TOMBSTONE_BYTES do
      local other, earlier, over = struct.unpack(TOMBSTONE, raw, at)
      local ends = math.abs(over)
      if ends > now and other == client then
        forget_at = math.max(forget_at, ends)
        if earlier >= attempt then attempt, is_revoked = earlier, over < 0 end
      elseif ends > now then
        kept[#kept + 1] = string.sub(raw, at, at + TOMBSTONE_BYTES - 1)
      end
    end
    if #kept == MAX_TOMBSTONES then table.remove(kept, 1) end
    local over = is_revoked and -forget_at or forget_at
    kept[#kept + 1] = struct.pack(TOMBSTONE, client, attempt, over)
    record.changed.t = table.concat(kept)
    record.has_tombstones = true
    holds.keep_until(needed)
  end,

  -- Ends a hold whose time is over. It leaves a tombstone, because a late copy of the acquire must
  -- not grant to an attempt without a caller.
  expire = function(index)
    holds.leave_tombstone(holds.remove_hold(index).id)
  end,

  -- The index of a hold whose time is not over, or nil.
  live_hold = function(id)
    local index = holds.hold_of(id)
    if not index then return nil end
    local hold = holds.hold_at(index)
    if holds.clamp(hold) <= now then
      holds.expire(index)
      return nil
    end
    holds.expect(index, hold.deadline)
    return index
  end,

  -- The record of a grant is written even if nothing changes: the client waits for replicas to
  -- acknowledge this write, and a script without a write would count as acknowledged immediately.
  granted = function(hold)
    record.must_write = true
    return struct.pack('<c1ddB', 'G', hold.token, hold.deadline, record.waiting > 0 and 1 or 0)
  end,

  -- Confirms a hold for `ttl` from now. A deadline never moves back, because the holder may rely on
  -- it. A hold with a later deadline also keeps its ttl: with a shorter ttl, `clamp` would take the
  -- deadline for one that was set before the clock went back.
  confirm = function(index, ttl)
    local hold = holds.hold_at(index)
    hold.state = CLAIMED
    if now + ttl > hold.deadline then
      hold.deadline, hold.ttl = now + ttl, ttl
    end
    record.longest_ttl = math.max(record.longest_ttl, ttl)
    holds.keep_until(hold.deadline)
    return holds.granted(hold)
  end,

  not_held = function()
    return struct.pack('<c1d', 'N', record.last_token)
  end,

  -- Whether this capacity is for the kind that the name is used as: a lock, or a semaphore.
  is_same_kind = function(capacity)
    return (record.capacity == LOCK_CAPACITY) == (capacity == LOCK_CAPACITY)
  end,

  -- Whether a request could be granted now, if it were next (model/acquire.rs).
  fits = function(weight, capacity)
    if capacity ~= record.capacity then return record.count == 0 end
    return record.used + weight <= capacity
  end,

  -- How long until the earliest hold may end.
  time_left = function()
    return math.max(record.bound - now, 0)
  end,
}
