-- Who waits: a list that is linked both ways, so that leaving costs the same with ten thousand
-- waiters as with one (model/record.rs, model/poll.rs).

local POLL_INTERVAL = 1000000 -- µs

-- An attempt's waiter, or nil.
local function waiting_of(id)
  if record.waiting == 0 then return nil end
  local waiter = waiters[id]
  if waiter == nil then
    local raw = redis.call('HGET', key, 'w' .. id)
    if not raw then return nil end
    if #raw < WAITER_BYTES then corrupt('a waiter') end
    local sequence, before, after, weight, ttl, since, nonce, facts = struct.unpack(WAITER, raw)
    check_times('a waiter', sequence, ttl, since, 0)
    waiter = {
      id = id, sequence = sequence, before = before, after = after, weight = weight, ttl = ttl,
      since = since, nonce = nonce, facts = string.sub(raw, facts), is_changed = false,
    }
    waiters[id] = waiter
  end
  return waiter or nil
end

-- A waiter that another one or the queue itself names.
local function linked(id)
  return waiting_of(id) or corrupt('the queue')
end

-- When a client with waiters was last seen, and how many of its attempts wait.
local function seen(client)
  local raw = get('c' .. client)
  if not raw then return 0, 0 end
  if #raw ~= 12 then corrupt('a client') end
  local last, waiting = struct.unpack('<dI4', raw)
  check_times('a client', last, 0, 0, 0)
  return last, waiting
end

local function put_seen(client, last, waiting)
  changed['c' .. client] = waiting > 0 and struct.pack('<dI4', last, waiting)
end

-- Notes that a client with a waiter is alive.
local function see(client)
  local _, waiting = seen(client)
  if waiting > 0 then put_seen(client, now, waiting) end
  keep_until(now)
end

local function link(id, side, to)
  local waiter = linked(id)
  waiter[side], waiter.is_changed = to, true
end

local function join(waiter)
  local client = client_of(waiter.id)
  local _, waiting = seen(client)
  put_seen(client, now, waiting + 1)
  if record.waiting == 0 then
    queue = { last_sequence = 0, head_sequence = 1, head = waiter.id, tail = NOBODY }
  end
  queue.last_sequence = queue.last_sequence + 1
  waiter.sequence, waiter.before, waiter.after = queue.last_sequence, queue.tail, NOBODY
  waiter.is_changed = true
  if queue.tail ~= NOBODY then link(queue.tail, 'after', waiter.id) end
  queue.tail = waiter.id
  record.waiting = record.waiting + 1
  waiters[waiter.id] = waiter
end

local function leave(waiter)
  local client = client_of(waiter.id)
  local last, waiting = seen(client)
  put_seen(client, last, math.max(waiting - 1, 0))
  if waiter.before == NOBODY then
    queue.head = waiter.after
    if waiter.after ~= NOBODY then queue.head_sequence = linked(waiter.after).sequence end
  else
    link(waiter.before, 'after', waiter.after)
  end
  if waiter.after == NOBODY then
    queue.tail = waiter.before
  else
    link(waiter.after, 'before', waiter.before)
  end
  record.waiting = record.waiting - 1
  waiters[waiter.id] = false
  changed['w' .. waiter.id] = false
end

-- Where a waiter stands, and when to ask again: the head when the earliest hold may end.
local function place(waiter)
  local ahead = math.min(waiter.sequence - queue.head_sequence, record.waiting - 1)
  local retry_after = ahead == 0 and math.min(time_left(), POLL_INTERVAL) or POLL_INTERVAL
  return struct.pack('<c1dI4d', 'Q', waiter.sequence, ahead, retry_after)
end
