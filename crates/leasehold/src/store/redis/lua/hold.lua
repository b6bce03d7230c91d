-- Holds and tombstones, and how long they are kept (model/mod.rs, model/record.rs).

function step.client_of(id)
  return string.sub(id, 1, 16)
end

function step.attempt_of(id)
  local attempt = struct.unpack('<d', id, 17)
  step.check_times(attempt, 0, 0, 0)
  return attempt
end

-- Keeps the record for the retention after that time, with half a retention of slack so that not
-- every step has to move the key's time to live.
function step.keep_until(time)
  local needed = math.max(time, now) + retention
  if record.collect_at < needed then
    record.collect_at = needed + math.floor(retention / 2)
  end
end

function step.hold_at(index)
  local hold = record.holds[index]
  if not hold then
    local raw = step.get('h' .. struct.pack('<I4', index))
    if not raw then step.corrupt() end
    hold = step.unpack_hold(raw, 1)
    record.holds[index] = hold
  end
  return hold
end

function step.put_index(id, index) -- the one at 0 is found without
  record.changed['i' .. id] = index > 0 and struct.pack('<I4', index)
end

-- The index of an attempt's hold, or nil.
function step.hold_of(id)
  if record.count > 0 and record.holds[0].id == id then return 0 end
  if record.count < 2 then return nil end
  local raw = step.get('i' .. id)
  if not raw then return nil end
  local index = #raw == 4 and struct.unpack('<I4', raw)
  if not index or index >= record.count or step.hold_at(index).id ~= id then
    step.corrupt()
  end
  return index
end

function step.add_hold(hold)
  record.bound = math.min(record.bound, hold.deadline)
  record.longest_ttl = math.max(record.longest_ttl, hold.ttl)
  record.used = record.used + hold.weight
  record.holds[record.count] = hold
  if record.count > 0 then step.put_index(hold.id, record.count) end
  record.count = record.count + 1
end

-- Removes a hold; the last one takes its place.
function step.remove_hold(index)
  local removed, last = step.hold_at(index), record.count - 1
  local moved = step.hold_at(last)
  record.count = last
  record.used = record.used - removed.weight
  if record.upgrading == removed.id then record.upgrading = step.NOBODY end
  record.holds[last] = nil
  if index > 0 then step.put_index(removed.id, 0) end
  if last > 0 then record.changed['h' .. struct.pack('<I4', last)] = false end
  if index < last then
    moved.raw = nil
    record.holds[index] = moved
    step.put_index(moved.id, index)
    if index < record.cursor then
      -- It came from where the sweep has not been to where it will not come again.
      record.running = math.min(record.running, moved.deadline)
    end
  end
  if last == 0 then
    record.cursor, record.bound, record.running, record.longest_ttl = 0, step.NEVER, step.NEVER, 0
  end
  record.cursor = math.min(record.cursor, last)
  return removed
end

-- A hold ends then, earlier than was known.
function step.expect(index, deadline)
  record.bound = math.min(record.bound, deadline)
  if index < record.cursor then record.running = math.min(record.running, deadline) end
end

-- The deadline, brought back to what the ttl allows if the server's clock went back.
function step.clamp(hold)
  hold.deadline = math.min(hold.deadline, now + hold.ttl + step.CLAIM_WINDOW)
  return hold.deadline
end

function step.tombstones()
  if not record.has_tombstones then return '' end
  local raw = step.get('t')
  if not raw or #raw % step.TOMBSTONE_BYTES ~= 0 then step.corrupt() end
  return raw
end

function step.is_finished(id)
  local raw, at = step.tombstones(), 0
  repeat
    at = string.find(raw, step.client_of(id), at + 1, true)
  until not at or at % step.TOMBSTONE_BYTES == 1
  if not at then return false end
  local _, attempt, over = struct.unpack(step.TOMBSTONE, raw, at)
  return attempt >= step.attempt_of(id) and over > now
end

function step.bury_attempt(id)
  local client, attempt = step.client_of(id), step.attempt_of(id)
  local forget_at = now + step.TOMBSTONE_LIFE
  local raw, kept = step.tombstones(), {}
  for at = 1, #raw, step.TOMBSTONE_BYTES do
    local other, earlier, over = struct.unpack(step.TOMBSTONE, raw, at)
    if over > now and other == client then
      attempt = math.max(attempt, earlier)
    elseif over > now then
      kept[#kept + 1] = string.sub(raw, at, at + step.TOMBSTONE_BYTES - 1)
    end
  end
  if #kept == step.MAX_TOMBSTONES then table.remove(kept, 1) end
  kept[#kept + 1] = struct.pack(step.TOMBSTONE, client, attempt, forget_at)
  record.changed.t = table.concat(kept)
  record.has_tombstones = true
  step.keep_until(forget_at)
end

-- Ends a hold whose time has come. A late copy of its acquire must not grant to an attempt that
-- nobody waits for any more, hence the tombstone.
function step.expire(index)
  step.bury_attempt(step.remove_hold(index).id)
end

-- The index of a hold whose time has not come, or nil.
function step.live_hold(id)
  local index = step.hold_of(id)
  if not index then return nil end
  local hold = step.hold_at(index)
  local known = hold.deadline
  if step.clamp(hold) <= now then
    step.expire(index)
    return nil
  end
  if hold.deadline < known then step.expect(index, hold.deadline) end
  return index
end

function step.granted(hold)
  return struct.pack('<c1ddB', 'G', hold.token, hold.deadline, record.waiting > 0 and 1 or 0)
end

-- Confirms a hold for `ttl` from now. A deadline never moves back: the holder may rely on it. The
-- ttl stays with its deadline: a shorter one beside it would make `clamp` take the deadline for one
-- of the future.
function step.confirm(index, ttl)
  local hold = step.hold_at(index)
  hold.state = step.CLAIMED
  if now + ttl > hold.deadline then
    hold.deadline, hold.ttl = now + ttl, ttl
  end
  record.longest_ttl = math.max(record.longest_ttl, ttl)
  step.keep_until(hold.deadline)
  return step.granted(hold)
end

function step.not_held()
  return struct.pack('<c1d', 'N', record.last_token)
end

-- How long until the earliest hold may end.
function step.time_left()
  return math.max(record.bound - now, 0)
end
