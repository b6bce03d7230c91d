-- The record of one name, between its key and this step (model/record.rs).
--
-- A step works on what it has loaded and writes nothing before `save`: so a field that turns out to
-- be damaged half-way leaves the whole record as it is.
--
-- Fields of the hash. Numbers are little-endian doubles, or integers of so many bytes:
--   s         version (1), flags (1): 1 somebody waits, 2 there are tombstones; capacity (4), last
--             token, collect_at; while something is held also count of holds (4), weight of all (4),
--             cursor (4), bound, running, longest ttl, upgrading (24 bytes), and the hold at index 0
--   h<index>  every other hold: id (24 bytes), weight (4), state (1), token, since, deadline, ttl,
--             nonce (8 bytes), facts (the rest)
--   i<id>     its index (4)
--   q         while somebody waits: how many (4), last sequence, the head's sequence, the ids of
--             head and tail (24 bytes each)
--   w<id>     a waiter: sequence, the ids before and after it (24 bytes each), weight (4), ttl,
--             since, nonce (8 bytes), facts (the rest)
--   c<client> a client with waiters: last seen, how many (4)
--   t         tombstones, the oldest first: client (16 bytes), attempt, until

local VERSION = 1
local IDLE, IDLE_BYTES = '<BBI4dd', 22
local HELD, HELD_BYTES = '<I4I4I4dddc24', 60
local HOLD, HOLD_BYTES = '<c24I4Bddddc8', 69
local QUEUE, QUEUE_BYTES = '<I4ddc24c24', 68
local WAITER, WAITER_BYTES = '<dc24c24I4ddc8', 84
local TOMBSTONE, TOMBSTONE_BYTES = '<c16dd', 32

local CLAIMED, KEPT, REVOKED, UNCLAIMED = 0, 1, 2, 3 -- states of a hold
local NEVER = 9007199254740991 -- µs: 2^53 - 1, the last number that a double holds exactly
local NOBODY = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'

local key, record, holds, queue, waiters, changed
local loaded_state, loaded_queue, loaded_collect_at
local messages, more = {}, 0

local function corrupt(what)
  error(redis.error_reply('CORRUPT ' .. what .. ' of this lock is damaged'))
end

local function check_times(what, a, b, c, d)
  if not (a >= 0 and a <= NEVER and b >= 0 and b <= NEVER and c >= 0 and c <= NEVER
      and d >= 0 and d <= NEVER) then
    corrupt(what)
  end
end

-- A field as this step has left it; `changed` has false for one that is removed.
local function get(field)
  local value = changed[field]
  if value == nil then return redis.call('HGET', key, field) end
  return value
end

local function unpack_hold(raw, at)
  if #raw - at + 1 < HOLD_BYTES then corrupt('a hold') end
  local id, weight, state, token, since, deadline, ttl, nonce, facts = struct.unpack(HOLD, raw, at)
  check_times('a hold', token, since, deadline, ttl)
  return {
    id = id, weight = weight, state = state, token = token, since = since, deadline = deadline,
    ttl = ttl, nonce = nonce, facts = string.sub(raw, facts), raw = raw,
  }
end

local function pack_hold(hold)
  return struct.pack(HOLD, hold.id, hold.weight, hold.state, hold.token, hold.since, hold.deadline,
    hold.ttl, hold.nonce) .. hold.facts
end

local function pack_state()
  local r = record
  local flags = (r.waiting > 0 and 1 or 0) + (r.has_tombstones and 2 or 0)
  local state = struct.pack(IDLE, VERSION, flags, r.capacity, r.last_token, r.collect_at)
  if r.count == 0 then return state end
  return state .. struct.pack(HELD, r.count, r.used, r.cursor, r.bound, r.running, r.longest_ttl,
    r.upgrading) .. pack_hold(holds[0])
end

local function unpack_state(state)
  if #state ~= IDLE_BYTES and #state < IDLE_BYTES + HELD_BYTES then corrupt('the state') end
  local _, flags, capacity, last_token, collect_at = struct.unpack(IDLE, state)
  local count, used, cursor, bound, running, longest_ttl, upgrading, hold =
    0, 0, 0, NEVER, NEVER, 0, NOBODY, nil
  if #state > IDLE_BYTES then
    count, used, cursor, bound, running, longest_ttl, upgrading, hold =
      struct.unpack(HELD, state, IDLE_BYTES + 1)
    if count == 0 then corrupt('the state') end
    check_times('the state', bound, running, longest_ttl, 0)
    holds[0] = unpack_hold(state, hold)
  end
  check_times('the state', last_token, collect_at, 0, 0)
  record = {
    capacity = capacity, last_token = last_token, collect_at = collect_at, count = count,
    used = used, cursor = cursor, bound = bound, running = running, longest_ttl = longest_ttl,
    upgrading = upgrading, waiting = flags % 2, has_tombstones = flags >= 2,
  }
end

local function load_queue()
  loaded_queue = redis.call('HGET', key, 'q')
  if not loaded_queue or #loaded_queue ~= QUEUE_BYTES then corrupt('the queue') end
  local waiting, last_sequence, head_sequence, head, tail = struct.unpack(QUEUE, loaded_queue)
  if waiting == 0 then corrupt('the queue') end
  check_times('the queue', last_sequence, head_sequence, 0, 0)
  record.waiting = waiting
  queue = { last_sequence = last_sequence, head_sequence = head_sequence, head = head, tail = tail }
end

-- Loads the record. Gives a reply instead if another release of leasehold wrote it.
local function load(from, state)
  key, holds, waiters, changed = from, {}, {}, {}
  queue, loaded_queue = nil, nil
  local version = state and string.byte(state)
  if version and version ~= VERSION then return struct.pack('<c1c1I4', 'R', 'V', version) end
  if not state and redis.call('HLEN', key) > 0 then
    corrupt('the key') -- it is somebody else's hash: a lock must not give it a time to live
  end
  loaded_state = state or struct.pack(IDLE, VERSION, 0, 0, 0, 0)
  unpack_state(loaded_state)
  loaded_collect_at = record.collect_at
  if record.waiting > 0 then load_queue() end
end

local function pack_queue()
  if record.waiting == 0 then return false end
  return struct.pack(QUEUE, record.waiting, queue.last_sequence, queue.head_sequence, queue.head,
    queue.tail)
end

-- Writes what has changed.
local function save()
  local state = pack_state()
  if state ~= loaded_state then changed.s = state end
  if queue then
    local packed = pack_queue()
    if packed ~= loaded_queue then changed.q = packed end
  end
  for index, hold in pairs(holds) do
    local packed = index > 0 and pack_hold(hold)
    if packed and packed ~= hold.raw then changed['h' .. struct.pack('<I4', index)] = packed end
  end
  for id, waiter in pairs(waiters) do
    if waiter and waiter.is_changed then
      changed['w' .. id] = struct.pack(WAITER, waiter.sequence, waiter.before,
        waiter.after, waiter.weight, waiter.ttl, waiter.since, waiter.nonce) .. waiter.facts
    end
  end
  local written, removed = { 'HSET', key }, { 'HDEL', key }
  for field, value in pairs(changed) do
    if value then
      written[#written + 1] = field
      written[#written + 1] = value
    else
      removed[#removed + 1] = field
    end
  end
  if #written > 2 then redis.call(unpack(written)) end
  if #removed > 2 then redis.call(unpack(removed)) end
  if record.collect_at ~= loaded_collect_at then
    redis.call('PEXPIREAT', key, string.format('%.0f', math.ceil(record.collect_at / 1000)))
  end
end

-- Does one step to one record and gives its reply: a letter and what belongs to it.
local function run(from, state, step)
  local refused = load(from, state)
  if refused then return refused end
  local reply = step()
  save()
  return reply
end

-- Tells whom it concerns, last and through pcall: the step has been written, and a server that
-- denies PUBLISH must not make it look as if it had not. Waiters find out by asking.
local function answer(reply)
  for _, message in ipairs(messages) do
    local hex = string.format(string.rep('%02x', 16), string.byte(message.client, 1, 16))
    redis.pcall('PUBLISH', ARGV[1] .. hex, message.payload)
  end
  return struct.pack('<dB', now, more) .. reply
end
