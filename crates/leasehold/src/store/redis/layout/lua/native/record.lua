-- Loads and saves the record of one name (model/record.rs).
--
-- A step works on the loaded record and writes nothing before `save`. So if a field turns out to be
-- damaged in the middle of a step, the record stays as it is.
--
-- Words in capitals are numbers and formats that script.rs writes into the text. The functions of a
-- file are in one table, because Lua builds them again on each call of a script. Each outer name
-- that a function uses costs a search among all outer names so far.
--
-- Fields of the hash. Numbers are little-endian doubles, or integers of as many bytes as
-- parentheses say:
--   s         version (1), flags (1): 1 somebody waits, 2 there are tombstones, 4 f and g are
--             swapped; capacity (4), last token, collect_at (7 each); while something is held also
--             how many holds (4), weight of all (4), cursor (4), bound, running, longest ttl, the
--             hold at 0. Of a lone hold with nothing unusual, whose token is the last one, only id
--             (24 bytes), weight (4), state (1), since, deadline (7 each)
--   b         of such a lone hold: bound, ttl (7 each), nonce (8 bytes); else empty or missing
--   f, g      facts: f has those of such a lone hold, and g those of the last released hold;
--             without such a lone hold, f has the latter, and g is unused
--   h<index>  every other hold: id (24 bytes), weight (4), state (1), token, since, deadline, ttl,
--             nonce (8 bytes), facts (the rest)
--   i<id>     its index (4)
--   q         while somebody waits: how many (4), last sequence, the head's sequence, the ids of
--             head and tail (24 bytes each)
--   w<id>     a waiter: sequence, the ids before and after it (24 bytes each), weight (4),
--             capacity (4), ttl, since, nonce (8 bytes), facts (the rest)
--   c<client> a client with waiters: last seen, how many (4)
--   t         tombstones, the oldest first: client (16 bytes), attempt, until;
--             that time is negative if an operator has ended that attempt's hold by force
--   l         the hold that was released last: when (7, µs), id (24 bytes)
--
-- Servers keep a hash as a list, in half of the memory, while no value has more than 64 bytes. That
-- is why a lone hold is split into two fields, and facts are in other fields.

local record

local store
store = {
  messages = {},
  more = 0,

  -- Ends the step with an error, before it has written anything.
  corrupt = function()
    error({ err = 'CORRUPT' })
  end,

  check_times = function(a, b, c, d)
    local most = NEVER
    if not (a >= 0 and a <= most and b >= 0 and b <= most and c >= 0 and c <= most
        and d >= 0 and d <= most) then
      store.corrupt()
    end
  end,

  -- The value of a field, as changed by this step. In `changed`, false stands for a removed field.
  get = function(field)
    local value = record.changed[field]
    if value == nil then return redis.call('HGET', record.key, field) end
    return value
  end,

  unpack_hold = function(raw, at)
    if #raw - at + 1 < HOLD_BYTES then store.corrupt() end
    local id, weight, state, token, since, deadline, ttl, nonce, facts =
      struct.unpack(HOLD, raw, at)
    store.check_times(token, since, deadline, ttl)
    return {
      id = id, weight = weight, state = state, token = token, since = since, deadline = deadline,
      ttl = ttl, nonce = nonce, facts = string.sub(raw, facts), raw = raw,
    }
  end,

  pack_hold = function(hold)
    return struct.pack(HOLD, hold.id, hold.weight, hold.state, hold.token, hold.since,
      hold.deadline, hold.ttl, hold.nonce) .. hold.facts
  end,

  -- The names of two fields: the facts of a lone hold, and the facts of the last hold.
  facts_fields = function(flags)
    if flags < 4 then return 'f', 'g' end
    return 'g', 'f'
  end,

  unpack_alone = function(key, state)
    local ALONE_FIELDS = struct.unpack(ALONE, state)
    local of_holder, of_last = store.facts_fields(flags)
    local fields = redis.call('HMGET', key, 'b', of_holder)
    local term, facts = fields[1], fields[2]
    if not term or #term ~= TERM_BYTES or not facts then store.corrupt() end
    local TERM_FIELDS = struct.unpack(TERM, term)
    store.check_times(last_token, collect_at, since, deadline)
    store.check_times(bound, held_ttl, 0, 0)
    return {
      capacity = total, last_token = last_token, collect_at = collect_at,
      count = 1, used = held_weight, cursor = 0, bound = bound, running = NEVER,
      longest_ttl = held_ttl, waiting = flags % 2, has_tombstones = flags % 4 >= 2,
      waiters = {}, changed = {},
      holds = { [0] = {
        id = holder, weight = held_weight, state = hold_state, token = last_token, since = since,
        deadline = deadline, ttl = held_ttl, nonce = held_nonce, facts = facts,
      } },
      loaded_state = state, loaded_collect_at = collect_at, loaded_term = term,
      loaded_facts = facts, of_holder = of_holder, of_last = of_last,
    }
  end,

  unpack_state = function(state)
    if #state ~= HEAD_BYTES and #state < HEAD_BYTES + HELD_BYTES then store.corrupt() end
    local _, flags, capacity, last_token, collect_at, at = struct.unpack(ALONE_HEAD, state)
    local count, used, cursor, bound, running, longest_ttl = 0, 0, 0, NEVER, NEVER, 0
    local held = {}
    if #state > HEAD_BYTES then
      count, used, cursor, bound, running, longest_ttl, at = struct.unpack(HELD, state, at)
      if count == 0 then store.corrupt() end
      held[0] = store.unpack_hold(state, at)
    end
    store.check_times(last_token, collect_at, bound, running)
    store.check_times(longest_ttl, 0, 0, 0)
    return {
      capacity = capacity, last_token = last_token, collect_at = collect_at,
      count = count, used = used, cursor = cursor, bound = bound, running = running,
      longest_ttl = longest_ttl, waiting = flags % 2, has_tombstones = flags % 4 >= 2,
      holds = held, waiters = {}, changed = {},
      loaded_state = state, loaded_collect_at = collect_at, of_last = store.facts_fields(flags),
    }
  end,

  -- Whether there is only one hold, and the short form has room for it.
  is_alone = function()
    local r, hold = record, record.holds[0]
    return r.count == 1 and r.cursor == 0 and r.running == NEVER and r.used == hold.weight
      and r.longest_ttl == hold.ttl and hold.token == r.last_token
  end,

  -- The field with the facts of the last hold. If this step has ended a lone hold, it is the field
  -- of that hold.
  field_of_last = function()
    return record.last_facts and record.of_holder or record.of_last
  end,

  -- Packs the fields `s` and `b`. The latter is false if there is no lone hold.
  pack_state = function()
    local r, is_alone = record, store.is_alone()
    local flags = (r.waiting > 0 and 1 or 0) + (r.has_tombstones and 2 or 0)
    if is_alone == (store.field_of_last() == 'f') then flags = flags + 4 end
    if is_alone then
      local hold = r.holds[0]
      return struct.pack(ALONE, VERSION, flags, r.capacity, r.last_token, r.collect_at, hold.id,
        hold.weight, hold.state, hold.since, hold.deadline),
        struct.pack(TERM, r.bound, hold.ttl, hold.nonce)
    end
    local head = struct.pack(ALONE_HEAD, VERSION, flags, r.capacity, r.last_token, r.collect_at)
    if r.count == 0 then return head, false end
    return head .. struct.pack(HELD, r.count, r.used, r.cursor, r.bound, r.running,
      r.longest_ttl) .. store.pack_hold(r.holds[0]), false
  end,

  load_queue = function()
    local raw = redis.call('HGET', record.key, 'q')
    if not raw or #raw ~= QUEUE_BYTES then store.corrupt() end
    local waiting, last_sequence, head_sequence, head, tail = struct.unpack(QUEUE, raw)
    if waiting == 0 then store.corrupt() end
    store.check_times(last_sequence, head_sequence, 0, 0)
    record.waiting = waiting
    record.queue = {
      last_sequence = last_sequence, head_sequence = head_sequence, head = head, tail = tail,
    }
    record.loaded_queue = raw
  end,

  pack_queue = function()
    if record.waiting == 0 then return false end
    local queue = record.queue
    return struct.pack(QUEUE, record.waiting, queue.last_sequence, queue.head_sequence,
      queue.head, queue.tail)
  end,

  pack_waiter = function(waiter)
    return struct.pack(WAITER, waiter.sequence, waiter.before, waiter.after, waiter.weight,
      waiter.capacity, waiter.ttl, waiter.since, waiter.nonce) .. waiter.facts
  end,

  -- Loads the record. Returns a reply instead if another release of leasehold wrote the record.
  load = function(key, state)
    local version = state and string.byte(state)
    if version and version ~= VERSION then return struct.pack('<c1c1I4', 'R', 'V', version) end
    if not state and redis.call('HLEN', key) > 0 then
      store.corrupt() -- the hash is foreign: it must not get a time to live
    end
    if state and #state == ALONE_BYTES then
      record = store.unpack_alone(key, state)
    else
      record = store.unpack_state(state or struct.pack(ALONE_HEAD, VERSION, 0, 0, 0, 0))
    end
    record.key = key
    if record.waiting > 0 then store.load_queue() end
  end,

  -- Adds the facts of the last hold and of a lone hold to `changed`, unless they are stored
  -- already.
  note_facts = function(is_alone)
    local of_last = store.field_of_last()
    local of_lone = of_last == 'f' and 'g' or 'f'
    local facts = { [of_last] = record.last_facts, [of_lone] = is_alone and record.holds[0].facts }
    for field, value in pairs(facts) do
      if value and not (field == record.of_holder and value == record.loaded_facts) then
        record.changed[field] = value
      end
    end
  end,

  -- Packs the fields that this step has used, and adds those that differ from the loaded ones to
  -- `changed`.
  note_changes = function()
    local changed, state, term = record.changed, store.pack_state()
    if record.must_write or state ~= record.loaded_state then changed.s = state end
    if term ~= (record.loaded_term or false) then changed.b = term end
    store.note_facts(term)
    if record.queue then
      local queue = store.pack_queue()
      if queue ~= record.loaded_queue then changed.q = queue end
    end
    for index, hold in pairs(record.holds) do
      local packed = index > 0 and store.pack_hold(hold)
      if packed and packed ~= hold.raw then changed['h' .. struct.pack('<I4', index)] = packed end
    end
    for id, waiter in pairs(record.waiters) do
      if waiter and waiter.is_changed then changed['w' .. id] = store.pack_waiter(waiter) end
    end
  end,

  -- Writes the changed fields.
  save = function()
    store.note_changes()
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
      local milliseconds = string.format('%.0f', math.ceil(record.collect_at / 1000))
      redis.call('PEXPIREAT', record.key, milliseconds)
    end
  end,

  load_act_and_save = function(key, state, action)
    if state == nil then state = redis.call('HGET', key, 's') end
    local refused = store.load(key, state)
    if refused then return refused end
    local reply = action()
    store.save()
    return reply
  end,

  -- Does one action on one record, and returns the reply: a letter and its values. `state` is the
  -- field `s` if it has been read, or false if the record has none.
  run = function(key, state, action)
    local before = #store.messages
    local done, reply = pcall(store.load_act_and_save, key, state, action)
    if done then return reply end
    local why = type(reply) == 'table' and reply.err or reply -- depends on the server's release
    local code = string.match(why, '^%-?(%u+)')
    if code ~= 'CORRUPT' and code ~= 'WRONGTYPE' then error({ err = why }) end
    for last = #store.messages, before + 1, -1 do store.messages[last] = nil end
    return 'X'
  end,

  -- The same for one of several names, so that an error affects only this name. Returns the whole
  -- reply.
  run_apart = function(key, state, action)
    store.more = 0
    local done, reply = pcall(store.run, key, state, action)
    if not done then return type(reply) == 'table' and reply or { err = reply } end
    return struct.pack('<dB', now, store.more) .. reply
  end,

  -- Publishes the messages of the step, now that it has been written.
  tell = function()
    for _, message in ipairs(store.messages) do publish(message.id, message.payload) end
  end,

  answer = function(reply)
    store.tell()
    return struct.pack('<dB', now, store.more) .. reply
  end,
}
