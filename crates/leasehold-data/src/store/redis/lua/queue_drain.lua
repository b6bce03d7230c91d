-- Returns the oldest entries, stores their results, or returns the state of an entry
-- (model/queue.rs). A full server refuses none of these, because they let entries leave.
--
-- KEYS  see entries.lua
-- ARGV  1, 2 the fence   3 'ask', 'finish' or 'take'
--       ask: 4 id   finish: 4 kept for, µs   5… id, result, id, result, …   take: 4 limit
-- reply now, and one of
--       'done', result   'entries', id, payload, …   'fenced', token   'finished', count
--       'pending'   'unknown_entry'

local action = ARGV[3]
local amount = action ~= 'ask' and number(4, SPAN_MAX)
local fenced = install_fence()
if fenced then return fenced end
forget_old()

if action == 'ask' then return known(ARGV[4]) or { now, 'unknown_entry' } end

if action == 'take' then
  local reply = { now, 'entries' }
  for _, entry in ipairs(redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', amount)) do
    reply[#reply + 1] = entry[2][2]
    reply[#reply + 1] = entry[2][4]
  end
  return reply
end

-- The result is stored and its entry removed in one step, so no crash comes in between.
local finished = 0
for index = 5, #ARGV, 2 do
  local id = ARGV[index]
  local place = redis.call('HGET', KEYS[1], 'p' .. id)
  if place then
    redis.call('HSET', KEYS[3], id, struct.pack('<d', now + amount) .. ARGV[index + 1])
    redis.call('ZADD', KEYS[4], whole(now + amount), id)
    redis.call('XDEL', KEYS[2], place)
    redis.call('HDEL', KEYS[1], 'p' .. id)
    finished = finished + 1
  end
end
return { now, 'finished', finished }
