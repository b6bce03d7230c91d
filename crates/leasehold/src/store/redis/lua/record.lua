-- The record of one name, between its key and this step (model/record.rs).
--
-- A step works on what it has loaded and writes nothing before `save`: so a field that turns out to
-- be damaged half-way leaves the whole record as it is.
-- Functions and numbers are fields of one table, `step`, because Lua builds every function anew on
-- each call of a script, and what that costs grows with the local variables the function names.
--
-- Fields of the hash. Numbers are little-endian doubles, or integers of so many bytes:
--   s         version (1), flags (1): 1 somebody waits, 2 there are tombstones; capacity (4), last
--             token, collect_at; while something is held also how many holds (4), weight of all
--             (4), cursor (4), bound, running, longest ttl, upgrading (24 bytes), the hold at 0
--   h<index>  every other hold: id (24 bytes), weight (4), state (1), token, since, deadline, ttl,
--             nonce (8 bytes), facts (the rest)
--   i<id>     its index (4)
--   q         while somebody waits: how many (4), last sequence, the head's sequence, the ids of
--             head and tail (24 bytes each)
--   w<id>     a waiter: sequence, the ids before and after it (24 bytes each), weight (4), ttl,
--             since, nonce (8 bytes), facts (the rest)
--   c<client> a client with waiters: last seen, how many (4)
--   t         tombstones, the oldest first: client (16 bytes), attempt, until

local step = {
  VERSION = 1,
  IDLE = '<BBI4dd', IDLE_BYTES = 22,
  HELD = '<I4I4I4dddc24', HELD_BYTES = 60,
  HOLD = '<c24I4Bddddc8', HOLD_BYTES = 69,
  QUEUE = '<I4ddc24c24', QUEUE_BYTES = 68,
  WAITER = '<dc24c24I4ddc8', WAITER_BYTES = 84,
  TOMBSTONE = '<c16dd', TOMBSTONE_BYTES = 32,
  CLAIMED = 0, KEPT = 1, REVOKED = 2, UNCLAIMED = 3, -- states of a hold
  NEVER = 9007199254740991, -- µs: 2^53 - 1, the last number that a double holds exactly
  NOBODY = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0',
  CLAIM_WINDOW = 2000000, POLL_INTERVAL = 1000000, DEAD_AFTER = 3000000, -- µs
  TOMBSTONE_LIFE = 60000000, -- µs
  MAX_TOMBSTONES = 64, MAX_WAITING = 100000,
  SKIP_BOUND = 16, GRANT_BOUND = 16, REAP_BOUND = 64,
  LOCK_CAPACITY = 2147483647,
  TOKEN_EPOCH = 1577836800000000, -- µs: 2020-01-01T00:00Z
  messages = {},
  more = 0,
}
local record

-- Ends the step, before it has written anything.
function step.corrupt()
  error({ err = 'CORRUPT' })
end

function step.check_times(a, b, c, d)
  local most = step.NEVER
  if not (a >= 0 and a <= most and b >= 0 and b <= most and c >= 0 and c <= most
      and d >= 0 and d <= most) then
    step.corrupt()
  end
end

-- A field as this step leaves it; `changed` has false for one that is removed.
function step.get(field)
  local value = record.changed[field]
  if value == nil then return redis.call('HGET', record.key, field) end
  return value
end

function step.unpack_hold(raw, at)
  if #raw - at + 1 < step.HOLD_BYTES then step.corrupt() end
  local id, weight, state, token, since, deadline, ttl, nonce, facts =
    struct.unpack(step.HOLD, raw, at)
  step.check_times(token, since, deadline, ttl)
  return {
    id = id, weight = weight, state = state, token = token, since = since, deadline = deadline,
    ttl = ttl, nonce = nonce, facts = string.sub(raw, facts), raw = raw,
  }
end

function step.pack_hold(hold)
  return struct.pack(step.HOLD, hold.id, hold.weight, hold.state, hold.token, hold.since,
    hold.deadline, hold.ttl, hold.nonce) .. hold.facts
end

function step.unpack_state(state)
  if #state ~= step.IDLE_BYTES and #state < step.IDLE_BYTES + step.HELD_BYTES then
    step.corrupt()
  end
  local _, flags, capacity, last_token, collect_at = struct.unpack(step.IDLE, state)
  local count, used, cursor, bound, running, longest_ttl, upgrading, at =
    0, 0, 0, step.NEVER, step.NEVER, 0, step.NOBODY, nil
  local holds = {}
  if #state > step.IDLE_BYTES then
    count, used, cursor, bound, running, longest_ttl, upgrading, at =
      struct.unpack(step.HELD, state, step.IDLE_BYTES + 1)
    if count == 0 then step.corrupt() end
    holds[0] = step.unpack_hold(state, at)
  end
  step.check_times(last_token, collect_at, bound, running)
  step.check_times(longest_ttl, 0, 0, 0)
  return {
    capacity = capacity, last_token = last_token, collect_at = collect_at, count = count,
    used = used, cursor = cursor, bound = bound, running = running, longest_ttl = longest_ttl,
    upgrading = upgrading, waiting = flags % 2, has_tombstones = flags >= 2, holds = holds,
    waiters = {}, changed = {}, loaded_state = state, loaded_collect_at = collect_at,
  }
end

function step.pack_state()
  local r = record
  local flags = (r.waiting > 0 and 1 or 0) + (r.has_tombstones and 2 or 0)
  local state = struct.pack(step.IDLE, step.VERSION, flags, r.capacity, r.last_token, r.collect_at)
  if r.count == 0 then return state end
  return state .. struct.pack(step.HELD, r.count, r.used, r.cursor, r.bound, r.running,
    r.longest_ttl, r.upgrading) .. step.pack_hold(r.holds[0])
end

function step.load_queue()
  local raw = redis.call('HGET', record.key, 'q')
  if not raw or #raw ~= step.QUEUE_BYTES then step.corrupt() end
  local waiting, last_sequence, head_sequence, head, tail = struct.unpack(step.QUEUE, raw)
  if waiting == 0 then step.corrupt() end
  step.check_times(last_sequence, head_sequence, 0, 0)
  record.waiting = waiting
  record.queue = {
    last_sequence = last_sequence, head_sequence = head_sequence, head = head, tail = tail,
  }
  record.loaded_queue = raw
end

function step.pack_queue()
  if record.waiting == 0 then return false end
  local queue = record.queue
  return struct.pack(step.QUEUE, record.waiting, queue.last_sequence, queue.head_sequence,
    queue.head, queue.tail)
end

function step.pack_waiter(waiter)
  return struct.pack(step.WAITER, waiter.sequence, waiter.before, waiter.after, waiter.weight,
    waiter.ttl, waiter.since, waiter.nonce) .. waiter.facts
end

-- Loads the record. Gives a reply instead if another release of leasehold wrote it.
function step.load(key, state)
  local version = state and string.byte(state)
  if version and version ~= step.VERSION then return struct.pack('<c1c1I4', 'R', 'V', version) end
  if not state and redis.call('HLEN', key) > 0 then
    step.corrupt() -- it is somebody else's hash: a lock must not give it a time to live
  end
  record = step.unpack_state(state or struct.pack(step.IDLE, step.VERSION, 0, 0, 0, 0))
  record.key = key
  if record.waiting > 0 then step.load_queue() end
end

-- Packs what this step has looked at, and notes what differs from what was loaded.
function step.note_changes()
  local changed, state = record.changed, step.pack_state()
  if state ~= record.loaded_state then changed.s = state end
  if record.queue then
    local queue = step.pack_queue()
    if queue ~= record.loaded_queue then changed.q = queue end
  end
  for index, hold in pairs(record.holds) do
    local packed = index > 0 and step.pack_hold(hold)
    if packed and packed ~= hold.raw then changed['h' .. struct.pack('<I4', index)] = packed end
  end
  for id, waiter in pairs(record.waiters) do
    if waiter and waiter.is_changed then changed['w' .. id] = step.pack_waiter(waiter) end
  end
end

-- Writes what has changed.
function step.save()
  step.note_changes()
  local written, removed = { 'HSET', record.key }, { 'HDEL', record.key }
  for field, value in pairs(record.changed) do
    if value then
      written[#written + 1] = field
      written[#written + 1] = value
    else
      removed[#removed + 1] = field
    end
  end
  if #written > 2 then redis.call(unpack(written)) end
  if #removed > 2 then redis.call(unpack(removed)) end
  if record.collect_at ~= record.loaded_collect_at then
    redis.call('PEXPIREAT', record.key, string.format('%.0f', math.ceil(record.collect_at / 1000)))
  end
end

function step.load_act_and_save(key, state, action)
  if state == nil then state = redis.call('HGET', key, 's') end
  local refused = step.load(key, state)
  if refused then return refused end
  local reply = action()
  step.save()
  return reply
end

-- Does one action to one record and gives its reply: a letter and what belongs to it. `state` is
-- the field of that name if it has been read, false if there is none.
function step.run(key, state, action)
  local told = #step.messages
  local done, reply = pcall(step.load_act_and_save, key, state, action)
  if done then return reply end
  local why = type(reply) == 'table' and reply.err or reply -- depends on the server's version
  local code = string.match(why, '^%-?(%u+)')
  if code ~= 'CORRUPT' and code ~= 'WRONGTYPE' then error({ err = why }) end
  for last = #step.messages, told + 1, -1 do step.messages[last] = nil end
  return 'X'
end

-- Tells whom it concerns, last and through pcall: the step has been written, and a server that
-- denies PUBLISH must not make it look as if it had not. Waiters find out by asking.
function step.answer(reply)
  for _, message in ipairs(step.messages) do
    local hex = string.format(string.rep('%02x', 16), string.byte(message.client, 1, 16))
    redis.pcall('PUBLISH', ARGV[1] .. hex, message.payload)
  end
  return struct.pack('<dB', now, step.more) .. reply
end
