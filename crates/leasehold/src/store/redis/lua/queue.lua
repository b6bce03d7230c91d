-- Who waits: a list that is linked both ways, so that leaving costs the same with ten thousand
-- waiters as with one (model/record.rs, model/poll.rs).

local POLL_INTERVAL = 1000000 -- µs

-- An attempt's waiter, or nil.
local function waiting_of(id)
  if record.waiting == 0 then return nil end
  local waiter = waiters[id]
  if waiter == nil then
    local raw, facts = redis.call('HGET', key, 'w' .. id), nil
    if not raw then return nil end
    if #raw < WAITER_BYTES then corrupt('a waiter') end
    waiter = { id = id, raw = raw }
    waiter.sequence, waiter.before, waiter.after, waiter.weight, waiter.ttl, waiter.since,
      waiter.nonce, facts = struct.unpack(WAITER, raw)
    check_times('a waiter', waiter.sequence, waiter.ttl, waiter.since, 0)
    waiter.facts = string.sub(raw, facts)
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
  put('c' .. client, waiting > 0 and struct.pack('<dI4', last, waiting))
end

-- Notes that a client with a waiter is alive.
local function see(client)
  local _, waiting = seen(client)
  if waiting > 0 then put_seen(client, now, waiting) end
  keep_until(now)
end

local function join(waiter)
  local _, waiting = seen(client_of(waiter.id))
  put_seen(client_of(waiter.id), now, waiting + 1)
  record.last_sequence = record.last_sequence + 1
  waiter.sequence, waiter.before, waiter.after = record.last_sequence, record.tail, NOBODY
  if record.waiting == 0 then
    record.head, record.head_sequence = waiter.id, waiter.sequence
  else
    linked(record.tail).after = waiter.id
  end
  record.tail = waiter.id
  record.waiting = record.waiting + 1
  waiters[waiter.id] = waiter
end

local function leave(waiter)
  local last, waiting = seen(client_of(waiter.id))
  put_seen(client_of(waiter.id), last, math.max(waiting - 1, 0))
  if waiter.before == NOBODY then
    record.head = waiter.after
    record.head_sequence = waiter.after ~= NOBODY and linked(waiter.after).sequence or 0
  else
    linked(waiter.before).after = waiter.after
  end
  if waiter.after == NOBODY then
    record.tail = waiter.before
  else
    linked(waiter.after).before = waiter.before
  end
  record.waiting = record.waiting - 1
  if record.waiting == 0 then record.last_sequence = 0 end
  waiters[waiter.id] = false
  put('w' .. waiter.id, false)
end

-- Where a waiter stands, and when to ask again: the head when the earliest hold may end.
local function place(waiter)
  local ahead = math.min(waiter.sequence - record.head_sequence, record.waiting - 1)
  local retry_after = ahead == 0 and math.min(time_left(), POLL_INTERVAL) or POLL_INTERVAL
  return { 'queued', waiter.sequence, ahead, retry_after }
end
