-- Gives a node of a quorum an id, and keeps the lists of nodes that its clients use. Clients with
-- different lists may each get a majority. So each client stores its list here, and sees the
-- others.
--
-- KEYS  1 the record: `id`, and `list1` to `list4`: in lines, when the list was last used (µs),
--         the ids of its nodes, and how the client that left it reaches them
-- ARGV  1 an id for a node that has none yet (32 bytes)
--       2 the caller's list: ids, in order, with commas; '' if it does not know all of them yet
--       3 how the caller reaches them   4 a list that it had before, or ''
-- reply the id, and for each other list in use its ids and how they are reached
--@include clock

local new_id, own, places, former = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local record = redis.call('HMGET', KEYS[1], 'id', 'list1', 'list2', 'list3', 'list4')
local id = record[1] or new_id
if not record[1] then redis.call('HSET', KEYS[1], 'id', id) end

-- A new list replaces the oldest.
local others, field, oldest = {}, nil, math.huge
for number = 1, 4 do
  local used, ids, reached = string.match(record[number + 1] or '', '^(%d+)\n([^\n]*)\n([^\n]*)$')
  used = math.min(tonumber(used or '0'), now) -- the clock may have been set back
  if ids == own then
    used = -1
  elseif ids and ids == former then
    redis.call('HDEL', KEYS[1], 'list' .. number)
    used = 0
  elseif used + LIST_LIFE > now then
    others[#others + 1] = { ids, reached }
  end
  if used < oldest then field, oldest = 'list' .. number, used end
end
if own ~= '' then
  redis.call('HSET', KEYS[1], field, string.format('%.0f', now) .. '\n' .. own .. '\n' .. places)
end
return { id, others }
