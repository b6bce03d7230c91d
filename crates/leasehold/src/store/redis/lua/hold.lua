-- Holds and tombstones, and how long they are kept (model/mod.rs, model/record.rs).

local CLAIM_WINDOW = 2000000 -- µs
local TOMBSTONE_LIFE = 60000000 -- µs
local MAX_TOMBSTONES = 64

local function client_of(id)
  return string.sub(id, 1, 16)
end

local function attempt_of(id)
  local attempt = struct.unpack('<d', id, 17)
  check_times('an attempt', attempt, 0, 0, 0)
  return attempt
end

-- Keeps the record for the retention after that time, with half a retention of slack so that not
-- every step has to move the key's time to live.
local function keep_until(time)
  local needed = math.max(time, now) + retention
  if record.collect_at < needed then
    record.collect_at = needed + math.floor(retention / 2)
  end
end

local function hold_at(index)
  local hold = holds[index]
  if not hold then
    local raw = get('h' .. struct.pack('<I4', index))
    if not raw then corrupt('a hold') end
    hold = unpack_hold(raw, 1)
    holds[index] = hold
  end
  return hold
end

local function put_index(id, index) -- the one at 0 is found without
  changed['i' .. id] = index > 0 and struct.pack('<I4', index)
end

-- The index of an attempt's hold, or nil.
local function hold_of(id)
  if record.count > 0 and holds[0].id == id then return 0 end
  if record.count < 2 then return nil end
  local raw = get('i' .. id)
  if not raw then return nil end
  local index = #raw == 4 and struct.unpack('<I4', raw)
  if not index or index >= record.count or hold_at(index).id ~= id then corrupt('an index') end
  return index
end

local function add_hold(hold)
  record.bound = math.min(record.bound, hold.deadline)
  record.longest_ttl = math.max(record.longest_ttl, hold.ttl)
  record.used = record.used + hold.weight
  holds[record.count] = hold
  if record.count > 0 then put_index(hold.id, record.count) end
  record.count = record.count + 1
end

-- Removes a hold; the last one takes its place.
local function remove_hold(index)
  local removed, last = hold_at(index), record.count - 1
  local moved = hold_at(last)
  record.count = last
  record.used = record.used - removed.weight
  if record.upgrading == removed.id then record.upgrading = NOBODY end
  holds[last] = nil
  if index > 0 then put_index(removed.id, 0) end
  if last > 0 then changed['h' .. struct.pack('<I4', last)] = false end
  if index < last then
    moved.raw = nil
    holds[index] = moved
    put_index(moved.id, index)
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
end

-- A hold ends then, earlier than was known.
local function expect(index, deadline)
  record.bound = math.min(record.bound, deadline)
  if index < record.cursor then record.running = math.min(record.running, deadline) end
end

-- The deadline, brought back to what the ttl allows if the server's clock went back.
local function clamp(hold)
  hold.deadline = math.min(hold.deadline, now + hold.ttl + CLAIM_WINDOW)
  return hold.deadline
end

local function tombstones()
  if not record.has_tombstones then return '' end
  local raw = get('t')
  if not raw or #raw % TOMBSTONE_BYTES ~= 0 then corrupt('a tombstone') end
  return raw
end

local function is_finished(id)
  local raw, at = tombstones(), 0
  repeat
    at = string.find(raw, client_of(id), at + 1, true)
  until not at or at % TOMBSTONE_BYTES == 1
  if not at then return false end
  local _, attempt, over = struct.unpack(TOMBSTONE, raw, at)
  return attempt >= attempt_of(id) and over > now
end

local function bury_attempt(id)
  local client, attempt, forget_at = client_of(id), attempt_of(id), now + TOMBSTONE_LIFE
  local raw, kept = tombstones(), {}
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
  changed.t = table.concat(kept)
  record.has_tombstones = true
  keep_until(forget_at)
end

-- Ends a hold whose time has come. A late copy of its acquire must not grant to an attempt that
-- nobody waits for any more, hence the tombstone.
local function expire(index)
  bury_attempt(remove_hold(index).id)
end

-- The index of a hold whose time has not come, or nil.
local function live_hold(id)
  local index = hold_of(id)
  if not index then return nil end
  local hold = hold_at(index)
  local known = hold.deadline
  if clamp(hold) <= now then
    expire(index)
    return nil
  end
  if hold.deadline < known then expect(index, hold.deadline) end
  return index
end

local function granted(hold)
  return struct.pack('<c1ddB', 'G', hold.token, hold.deadline, record.waiting > 0 and 1 or 0)
end

-- Confirms a hold for `ttl` from now. A deadline never moves back: the holder may rely on it. The
-- ttl stays with its deadline: a shorter one beside it would make `clamp` take the deadline for one
-- of the future.
local function confirm(index, ttl)
  local hold = hold_at(index)
  hold.state = CLAIMED
  if now + ttl > hold.deadline then
    hold.deadline, hold.ttl = now + ttl, ttl
  end
  record.longest_ttl = math.max(record.longest_ttl, ttl)
  keep_until(hold.deadline)
  return granted(hold)
end

local function not_held()
  return struct.pack('<c1d', 'N', record.last_token)
end

-- How long until the earliest hold may end.
local function time_left()
  return math.max(record.bound - now, 0)
end
