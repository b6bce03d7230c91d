-- The queue: a list that is linked in both directions, so that leaving it costs the same with ten
-- thousand waiters as with one (model/record.rs, model/poll.rs).

local waiters
waiters = {
  -- An attempt's waiter, or nil.
  waiting_of = function(id)
    if record.waiting == 0 then return nil end
    local waiter = record.waiters[id]
    if waiter == nil then
      local raw = redis.call('HGET', record.key, 'w' .. id)
      if not raw then return nil end
      if #raw < WAITER_BYTES then store.corrupt() end
      local sequence, before, after, weight, capacity, ttl, since, nonce, facts =
        struct.unpack(WAITER, raw)
      store.check_times(sequence, ttl, since, 0)
      waiter = {
        id = id, sequence = sequence, before = before, after = after, weight = weight,
        capacity = capacity, ttl = ttl, since = since, nonce = nonce,
        facts = string.sub(raw, facts), is_changed = false,
      }
      record.waiters[id] = waiter
    end
    return waiter or nil
  end,

  -- The waiter whose id is in the queue's field, or in another waiter: it must exist.
  linked = function(id)
    return waiters.waiting_of(id) or store.corrupt()
  end,

  -- When a client with waiters was last seen, and how many of its attempts wait.
  seen = function(client)
    local raw = store.get('c' .. client)
    if not raw then return 0, 0 end
    if #raw ~= 12 then store.corrupt() end
    local last, waiting = struct.unpack('<dI4', raw)
    store.check_times(last, 0, 0, 0)
    return last, waiting
  end,

  put_seen = function(client, last, waiting)
    record.changed['c' .. client] = waiting > 0 and struct.pack('<dI4', last, waiting)
  end,

  -- Records that a client with a waiter is alive.
  see = function(client)
    local _, waiting = waiters.seen(client)
    if waiting > 0 then waiters.put_seen(client, now, waiting) end
    holds.keep_until(now)
  end,

  link = function(id, side, to)
    local waiter = waiters.linked(id)
    waiter[side], waiter.is_changed = to, true
  end,

  join = function(waiter)
    local client = holds.client_of(waiter.id)
    local _, waiting = waiters.seen(client)
    waiters.put_seen(client, now, waiting + 1)
    if record.waiting == 0 then
      record.queue = { last_sequence = 0, head_sequence = 1, head = waiter.id, tail = NOBODY }
    end
    local queue = record.queue
    queue.last_sequence = queue.last_sequence + 1
    waiter.sequence, waiter.before, waiter.after = queue.last_sequence, queue.tail, NOBODY
    waiter.is_changed = true
    if queue.tail ~= NOBODY then waiters.link(queue.tail, 'after', waiter.id) end
    queue.tail = waiter.id
    record.waiting = record.waiting + 1
    record.waiters[waiter.id] = waiter
  end,

  leave = function(waiter)
    local queue, client = record.queue, holds.client_of(waiter.id)
    local last, waiting = waiters.seen(client)
    waiters.put_seen(client, last, math.max(waiting - 1, 0))
    if waiter.before == NOBODY then
      queue.head = waiter.after
      if waiter.after ~= NOBODY then
        queue.head_sequence = waiters.linked(waiter.after).sequence
      end
    else
      waiters.link(waiter.before, 'after', waiter.after)
    end
    if waiter.after == NOBODY then
      queue.tail = waiter.before
    else
      waiters.link(waiter.after, 'before', waiter.before)
    end
    record.waiting = record.waiting - 1
    record.waiters[waiter.id] = false
    record.changed['w' .. waiter.id] = false
  end,

  -- The place of a waiter, and when it should ask again. The head asks when the earliest hold may
  -- end.
  place = function(waiter)
    local ahead = math.min(waiter.sequence - record.queue.head_sequence, record.waiting - 1)
    local retry_after = POLL_INTERVAL
    if ahead == 0 then retry_after = math.min(holds.time_left(), retry_after) end
    local other = waiter.capacity == record.capacity and 0 or record.capacity
    return struct.pack('<c1dI4dI4', 'Q', waiter.sequence, ahead, retry_after, other)
  end,
}
