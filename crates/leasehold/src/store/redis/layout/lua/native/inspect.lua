-- Returns the holders, the waiters and the last holder; changes nothing (model/inspect.rs).
--
-- KEYS  1 … n the locks' records, all different
-- ARGV  1 the prefix of the names of all inboxes
--       2 … n + 1 packed, for each key: retention (µs), the most holders and waiters to return (4)
-- reply for one key, or a list for several: an error, or packed: now (µs), 0 (1), one of
--       'I' status: capacity (4), last token (µs, or 0), how many wait (4),
--         how many holders follow (4), each attempt (24 bytes), weight (4), state (1), token (µs),
--         since (µs), deadline (µs), length of facts (2), facts,
--         how many waiters follow (4), each attempt (24 bytes), weight (4), capacity (4),
--         since (µs), length of facts (2), facts,
--         length of the last hold (2, or 0 if none is known), as it is packed, with its facts
--       'R' refused: 'V' version: found (4)   'X' the record is damaged
-- Numbers are little-endian doubles, or integers with the number of bytes in parentheses.
--@include clock

local retention, limit
--@include publish
--@include native/record
--@include native/hold
--@include native/queue

local function holders()
  local list = {}
  for index = 0, record.count - 1 do
    if #list == limit then break end
    local hold = holds.hold_at(index)
    if hold.deadline > now then
      list[#list + 1] = struct.pack('<c24I4BdddI2', hold.id, hold.weight, hold.state, hold.token,
        hold.since, hold.deadline, #hold.facts) .. hold.facts
    end
  end
  return struct.pack('<I4', #list) .. table.concat(list)
end

local function waiters_in_order()
  local list, id = {}, record.queue and record.queue.head
  for position = 1, math.min(limit, record.waiting) do
    local waiter = waiters.linked(id)
    list[position] = struct.pack('<c24I4I4dI2', waiter.id, waiter.weight, waiter.capacity,
      waiter.since, #waiter.facts) .. waiter.facts
    id = waiter.after
  end
  return struct.pack('<I4', #list) .. table.concat(list)
end

local function status()
  local fields = redis.call('HMGET', record.key, 'l', record.of_last)
  local last, last_facts = fields[1], fields[2]
  local known = struct.pack('<c1I4dI4', 'I', record.capacity, record.last_token, record.waiting)
    .. holders() .. waiters_in_order()
  if not last then return known .. struct.pack('<I2', 0) end
  if #last ~= LAST_BYTES or not last_facts then store.corrupt() end
  return known .. struct.pack('<I2', #last + #last_facts) .. last .. last_facts
end

local replies = {}
for at = 1, #KEYS do
  local asked = ARGV[at + 1]
  if not asked or #asked ~= 12 then
    return redis.error_reply('ARGUMENT ' .. at + 1 .. ' has a wrong length')
  end
  retention, limit = struct.unpack('<dI4', asked)
  if not (retention >= 0 and retention <= 1e15) then
    return redis.error_reply('ARGUMENT ' .. at + 1 .. ' has a number out of range')
  end
  replies[at] = store.run_apart(KEYS[at], nil, status)
end
if #KEYS == 1 then return replies[1] end
return replies
