-- Ends holds or waits, and hands the names on.
--
-- KEYS  1 … n the gates   n + 1 the counter; without it, only what the caller knows is ended
-- ARGV  2 for each of them: what the gate says, as far as the caller knows (`h ATTEMPT [TOKEN
--       FACTS]`), and the request
--       then: prefix of inboxes; '' if nothing stays, or how long the name stays taken (ms), how
--       long it says that this run has succeeded (ms, 0 if it has not), and 1 if a copy of a
--       request may still arrive, or 0
-- reply a letter for each: 1 ended · 0 there was nothing · x the value of the gate is not ours
--       ? for all, if the counter is needed
--@include guard
local names, stays = (#ARGV - 2) / 2, ARGV[#ARGV]
local first = names == 1 and redis.pcall('GET', KEYS[1])
if first == ARGV[1] and stays == '' then return redis.call('DEL', KEYS[1]) and '1' end
local values = names > 1 and redis.call('MGET', unpack(KEYS, 1, names)) or { first }
local replies, free = {}, {}
for at = 1, names do
  if stays == '' and values[at] == ARGV[2 * at - 1] then
    free[#free + 1] = KEYS[at]
    replies[at] = '1'
  end
end
if free[1] then redis.call('DEL', unpack(free)) end
if #free == names then return table.concat(replies) end
if not KEYS[names + 1] then return '?' end
--@include gate
--@include finish

for at = 1, names do
  replies[at] = replies[at]
    or finish(KEYS[at], values[at], ARGV[2 * at], KEYS[names + 1], ARGV[#ARGV - 1], stays)
end
return table.concat(replies)
