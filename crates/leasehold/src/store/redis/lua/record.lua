-- The record of one name, between its key and this step (model/record.rs).
--
-- A step works on what it has loaded and writes nothing before `save`: so a field that turns out to
-- be damaged half-way leaves the whole record as it is.
--
-- Fields of the hash. Numbers are little-endian doubles, or integers of so many bytes:
--   s         version (1), capacity (4), last token, collect_at; while something is held also
--             count of holds (4), weight of all (4), cursor (4), bound, running, longest ttl,
--             upgrading (24 bytes), and the hold with index 0
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
local IDLE, IDLE_BYTES = '<BI4dd', 21
local HELD, HELD_BYTES = '<I4I4I4dddc24', 60
local HOLD, HOLD_BYTES = '<c24I4Bddddc8', 69
local QUEUE, QUEUE_BYTES = '<I4ddc24c24', 68
local WAITER, WAITER_BYTES = '<dc24c24I4ddc8', 84
local TOMBSTONE, TOMBSTONE_BYTES = '<c16dd', 32

local CLAIMED, KEPT, REVOKED, UNCLAIMED = 0, 1, 2, 3 -- states of a hold
local NEVER = TIME_MAX
local NOBODY = string.rep('\0', 24)

local retention = number(2, SPAN_MAX)

local key, record, holds, waiters, before, changed
local messages, more = {}, false

local function corrupt(what)
  error(redis.error_reply('CORRUPT ' .. what .. ' of this lock is damaged'))
end

local function check_times(what, a, b, c, d)
  if not (a >= 0 and a <= NEVER and b >= 0 and b <= NEVER and c >= 0 and c <= NEVER
      and d >= 0 and d <= NEVER) then
    corrupt(what)
  end
end

local function put(field, value) -- false removes it
  changed[field] = value
end

local function get(field)
  local value = changed[field]
  if value == nil then return redis.call('HGET', key, field) end
  return value
end

local function unpack_hold(raw, at)
  if #raw - at + 1 < HOLD_BYTES then corrupt('a hold') end
  local hold, facts = {}, nil
  hold.id, hold.weight, hold.state, hold.token, hold.since, hold.deadline, hold.ttl, hold.nonce,
    facts = struct.unpack(HOLD, raw, at)
  check_times('a hold', hold.token, hold.since, hold.deadline, hold.ttl)
  hold.facts = string.sub(raw, facts)
  return hold
end

local function pack_hold(hold)
  return struct.pack(HOLD, hold.id, hold.weight, hold.state, hold.token, hold.since, hold.deadline,
    hold.ttl, hold.nonce) .. hold.facts
end

local function pack_state()
  local state = struct.pack(IDLE, VERSION, record.capacity, record.last_token, record.collect_at)
  if record.count == 0 then return state end
  return state .. struct.pack(HELD, record.count, record.used, record.cursor, record.bound,
    record.running, record.longest_ttl, record.upgrading) .. pack_hold(holds[0])
end

local function unpack_state(state)
  if #state ~= IDLE_BYTES and #state < IDLE_BYTES + HELD_BYTES then corrupt('the state') end
  local r, hold, _ = record, nil, nil
  _, r.capacity, r.last_token, r.collect_at = struct.unpack(IDLE, state)
  if #state > IDLE_BYTES then
    r.count, r.used, r.cursor, r.bound, r.running, r.longest_ttl, r.upgrading, hold =
      struct.unpack(HELD, state, IDLE_BYTES + 1)
    if r.count == 0 then corrupt('the state') end
    check_times('the state', r.bound, r.running, r.longest_ttl, 0)
    holds[0] = unpack_hold(state, hold)
  end
  check_times('the state', r.last_token, r.collect_at, 0, 0)
end

local function unpack_queue(queue)
  if #queue ~= QUEUE_BYTES then corrupt('the queue') end
  local r = record
  r.waiting, r.last_sequence, r.head_sequence, r.head, r.tail = struct.unpack(QUEUE, queue)
  if r.waiting == 0 then corrupt('the queue') end
  check_times('the queue', r.last_sequence, r.head_sequence, 0, 0)
end

-- Loads the record. Gives a reply instead if another release of leasehold wrote it.
local function load(from, values)
  local state, queue, tombstones = values[1], values[2], values[3]
  key, holds, waiters, changed = from, {}, {}, {}
  record = {
    capacity = 0, last_token = 0, collect_at = 0, count = 0, used = 0, cursor = 0, bound = NEVER,
    running = NEVER, longest_ttl = 0, upgrading = NOBODY, waiting = 0, last_sequence = 0,
    head_sequence = 0, head = NOBODY, tail = NOBODY, tombstones = tombstones or '',
  }
  if state then
    local version = string.byte(state)
    if version and version ~= VERSION then return { 'refused', 'version', version } end
    unpack_state(state)
  elseif redis.call('HLEN', key) > 0 then
    corrupt('the key') -- it is somebody else's hash: a lock must not give it a time to live
  end
  if queue then unpack_queue(queue) end
  if #record.tombstones % TOMBSTONE_BYTES ~= 0 then corrupt('a tombstone') end
  before = {
    s = state or pack_state(), q = queue, t = tombstones, collect_at = record.collect_at,
  }
end

local function put_if_changed(field, value)
  if value ~= before[field] then put(field, value) end
end

-- Writes what has changed.
local function save()
  put_if_changed('s', pack_state())
  put_if_changed('q', record.waiting > 0 and struct.pack(QUEUE, record.waiting,
    record.last_sequence, record.head_sequence, record.head, record.tail))
  put_if_changed('t', record.tombstones ~= '' and record.tombstones)
  for index, hold in pairs(holds) do
    local packed = pack_hold(hold)
    if index > 0 and packed ~= hold.raw then put('h' .. struct.pack('<I4', index), packed) end
  end
  for id, waiter in pairs(waiters) do
    local packed = waiter and struct.pack(WAITER, waiter.sequence, waiter.before, waiter.after,
      waiter.weight, waiter.ttl, waiter.since, waiter.nonce) .. waiter.facts
    if packed and packed ~= waiter.raw then put('w' .. id, packed) end
  end
  local written, removed = {}, {}
  for field, value in pairs(changed) do
    if value then
      written[#written + 1] = field
      written[#written + 1] = value
    else
      removed[#removed + 1] = field
    end
  end
  if #written > 0 then redis.call('HSET', key, unpack(written)) end
  if #removed > 0 then redis.call('HDEL', key, unpack(removed)) end
  if record.collect_at ~= before.collect_at then
    redis.call('PEXPIREAT', key, string.format('%.0f', math.ceil(record.collect_at / 1000)))
  end
end

-- Does one step to one record and gives its reply, a word and what belongs to it.
local function run(from, values, step)
  local refused = load(from, values or redis.call('HMGET', from, 's', 'q', 't'))
  if refused then return refused end
  local reply = step()
  save()
  return reply
end

-- Tells whom it concerns, last and through pcall: a server that denies PUBLISH must not undo the
-- impression that the step, which is written, has been done. Waiters find out by asking.
local function answer(reply)
  for _, message in ipairs(messages) do
    local hex = string.format(string.rep('%02x', 16), string.byte(message.client, 1, 16))
    redis.pcall('PUBLISH', ARGV[1] .. hex, message.payload)
  end
  return { now, more and 1 or 0, unpack(reply) }
end
