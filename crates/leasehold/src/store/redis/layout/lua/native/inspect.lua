-- Who holds, who waits and who held before; changes nothing (model/inspect.rs).
--
-- KEYS  1 the lock's record
-- ARGV  1 what all inboxes' names begin with
--       2 packed: retention (µs), at most so many holders, waiters and past holders (4)
-- reply packed: now (µs), 0 (1), and one of
--       'I' status: capacity (4), last token (µs, or 0), how many wait (4),
--         how many holders follow (4), each attempt (24 bytes), weight (4), state (1), token (µs),
--         since (µs), deadline (µs), length of facts (2), facts,
--         how many waiters follow (4), each attempt (24 bytes), weight (4), capacity (4),
--         since (µs), length of facts (2), facts,
--         at most how many past holders are shown (4), how many follow (4), each as it is packed
--       'R' refused: 'V' version: found (4)   'X' the record is damaged
-- Numbers are little-endian doubles, or integers of so many bytes.
--@include clock

if not ARGV[2] or #ARGV[2] ~= 12 then return redis.error_reply('ARGUMENT 2 has a wrong length') end
local retention, limit = struct.unpack('<dI4', ARGV[2])
if not (retention >= 0 and retention <= 1e15) then
  return redis.error_reply('ARGUMENT 2 has a number out of range')
end
--@include native/past
--@include publish
--@include native/record
--@include native/hold
--@include native/queue

local ended = {} -- of which no step has come by yet

local function holders()
  local list = {}
  for index = 0, record.count - 1 do
    if #list == limit then break end
    local hold = holds.hold_at(index)
    if hold.deadline > now then
      list[#list + 1] = struct.pack('<c24I4BdddI2', hold.id, hold.weight, hold.state, hold.token,
        hold.since, hold.deadline, #hold.facts) .. hold.facts
--@history    elseif hold.state ~= COOLDOWN then
--@history      ended[#ended + 1] = pack_past(hold.id, hold.weight, record.capacity, hold.state,
--@history        hold.token, hold.since, hold.deadline, hold.facts, BY_TIME)
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

-- Also what others keep, where this client keeps none.
local function past_holders()
  local most = HISTORY > 0 and HISTORY or MAX_HISTORY
  local field, count = limit > 0 and redis.call('HGET', record.key, 'p'), 0
  if field then count = count_past(field) or store.corrupt() end
  return struct.pack('<I4I4', math.min(most, limit), #ended + count) .. table.concat(ended)
    .. string.sub(field or '', 2)
end

return store.answer(store.run(KEYS[1], nil, function()
  return struct.pack('<c1I4dI4', 'I', record.capacity, record.last_token, record.waiting)
    .. holders() .. waiters_in_order() .. past_holders()
end))
