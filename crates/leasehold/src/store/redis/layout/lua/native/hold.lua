-- Holds and tombstones, and how long they are kept (model/mod.rs, model/record.rs).

local holds
holds = {
  client_of = function(id)
    return string.sub(id, 1, 16)
  end,

  attempt_of = function(id)
    local attempt = struct.unpack('<d', id, 17)
    store.check_times(attempt, 0, 0, 0)
    return attempt
  end,

  -- Keeps the record for the retention after that time, with half a retention of slack so that not
  -- every step has to move the key's time to live.
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

  put_index = function(id, index) -- the one at 0 is found without
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

--@history  -- Lays out anew a ring of those who keep more or fewer, with room for one more, for
--@history  -- which the oldest give way. Gives the field for that, and the ring.
--@history  lay_out_past = function(ring)
--@history    local fields, kept = past_fields(ring) or store.corrupt(), {}
--@history    for at = math.max(#fields - HISTORY + 2, 1), #fields do
--@history      kept[#kept + 1] = store.get(fields[at]) or store.corrupt()
--@history    end
--@history    for _, field in ipairs(fields) do record.changed[field] = false end
--@history    for at, past in ipairs(kept) do record.changed['p' .. string.char(at - 1)] = past end
--@history    local count = #kept + 1
--@history    return 'p' .. string.char(#kept), string.char(HISTORY, count, count % HISTORY)
--@history  end,
--@history
--@history  -- Remembers that whoever has a hold has it no more. Nobody has one in its cooldown.
--@history  note_end = function(hold, ending)
--@history    if hold.state == COOLDOWN then return end
--@history    local ring = store.get('p')
--@history    local field, changed = next_past(ring)
--@history    if not field then field, changed = holds.lay_out_past(ring) end
--@history    record.changed.p = changed
--@history    record.changed[field] = pack_past(math.min(hold.deadline, now), hold.state, ending,
--@history      record.capacity, store.pack_hold(hold))
--@history  end,
  -- Removes a hold; the last one takes its place.
  remove_hold = function(index)
    local removed, last = holds.hold_at(index), record.count - 1
    local moved = holds.hold_at(last)
    record.count = last
    record.used = record.used - removed.weight
    if record.upgrading == removed.id then record.upgrading = NOBODY end
    record.holds[last] = nil
    if index > 0 then holds.put_index(removed.id, 0) end
    if last > 0 then record.changed['h' .. struct.pack('<I4', last)] = false end
    if index < last then
      moved.raw = nil
      record.holds[index] = moved
      holds.put_index(moved.id, index)
      if index < record.cursor then
        -- It came from where the sweep has not been to where it will not come again.
        record.running = math.min(record.running, moved.deadline)
      end
    end
    if last == 0 then
      record.cursor, record.bound, record.running, record.longest_ttl = 0, NEVER, NEVER, 0
    end
    record.cursor = math.min(record.cursor, last)
    return removed
  end,

  -- A hold ends then, maybe earlier than was known.
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

  is_finished = function(id)
    local raw, at = holds.tombstones(), 0
    repeat
      at = string.find(raw, holds.client_of(id), at + 1, true)
    until not at or at % TOMBSTONE_BYTES == 1
    if not at then return false end
    local _, attempt, over = struct.unpack(TOMBSTONE, raw, at)
    return attempt >= holds.attempt_of(id) and over > now
  end,

  leave_tombstone = function(id)
    local client, attempt = holds.client_of(id), holds.attempt_of(id)
    local forget_at = now + TOMBSTONE_LIFE
    local raw, kept = holds.tombstones(), {}
    for at = 1, #raw, TOMBSTONE_BYTES do
      local other, earlier, over = struct.unpack(TOMBSTONE, raw, at)
      if over > now and other == client then
        attempt = math.max(attempt, earlier)
      elseif over > now then
        kept[#kept + 1] = string.sub(raw, at, at + TOMBSTONE_BYTES - 1)
      end
    end
    if #kept == MAX_TOMBSTONES then table.remove(kept, 1) end
    kept[#kept + 1] = struct.pack(TOMBSTONE, client, attempt, forget_at)
    record.changed.t = table.concat(kept)
    record.has_tombstones = true
    holds.keep_until(forget_at)
  end,

  -- Ends a hold whose time has come. A late copy of its acquire must not grant to an attempt that
  -- nobody waits for any more, hence the tombstone.
  expire = function(index)
--@history    holds.note_end(holds.hold_at(index), BY_TIME)
    holds.leave_tombstone(holds.remove_hold(index).id)
  end,

  -- The index of a hold whose time has not come, or nil.
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

  granted = function(hold)
    return struct.pack('<c1ddB', 'G', hold.token, hold.deadline, record.waiting > 0 and 1 or 0)
  end,

  -- Confirms a hold for `ttl` from now. A deadline never moves back: the holder may rely on it.
  -- The ttl stays with its deadline: a shorter one beside it would make `clamp` take the deadline
  -- for one of the future.
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

  -- Whether it is in use as what this capacity is one of: a lock, or a semaphore.
  is_same_kind = function(capacity)
    return (record.capacity == LOCK_CAPACITY) == (capacity == LOCK_CAPACITY)
  end,

  -- Whether a request shares what there is with those who hold (model/acquire.rs).
  admits = function(weight, capacity)
    return (capacity == record.capacity or capacity == record.asked) and weight <= record.capacity
  end,

  -- Whether a request can be granted if it is its turn.
  fits = function(weight, capacity)
    if not holds.admits(weight, capacity) then return record.count == 0 end
    return record.used + weight <= record.capacity
  end,

  -- From now on this is the capacity, by whoever asks for it.
  begin_with = function(capacity)
    record.capacity, record.asked = capacity, capacity
  end,

  -- How long until the earliest hold may end.
  time_left = function()
    return math.max(record.bound - now, 0)
  end,
}
