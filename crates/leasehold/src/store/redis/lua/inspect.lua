#!lua flags=no-writes
-- Who holds and who waits; changes nothing (model/inspect.rs).
--
-- KEYS  1 the lock's record
-- ARGV  1 what all inboxes' names begin with   2 retention, µs
--       3 at most so many holders, and so many waiters
-- reply now, 0, and one of
--       'status', capacity, last token µs or 0, how many wait,
--         { { attempt, weight, state, token µs, since µs, deadline µs, facts }, ... },
--         { { attempt, weight, since µs, facts }, ... }
--       'refused', 'version', found
--@include clock
--@include arguments
--@include record
--@include hold
--@include queue

local limit = number(3, COUNT_MAX)

local function holders()
  local list = {}
  for index = 0, record.count - 1 do
    if #list == limit then break end
    local hold = hold_at(index)
    if hold.deadline > now then
      list[#list + 1] = {
        hold.id, hold.weight, hold.state, hold.token, hold.since, hold.deadline, hold.facts,
      }
    end
  end
  return list
end

local function waiters_in_order()
  local list, id = {}, record.head
  for position = 1, math.min(limit, record.waiting) do
    local waiter = linked(id)
    list[position] = { waiter.id, waiter.weight, waiter.since, waiter.facts }
    id = waiter.after
  end
  return list
end

return answer(run(KEYS[1], nil, function()
  return {
    'status', record.capacity, record.last_token, record.waiting, holders(), waiters_in_order(),
  }
end))
