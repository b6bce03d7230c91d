-- Moves the ends of holds of Redisson's locks forward.
--
-- KEYS  for each: the lock, and the hold's key
-- ARGV  for each: the owner, and the ttl (µs)
-- reply packed as by native/renew.lua, for each: 'G' granted, 'N' not held, 'V' revoked, or
--   'X' the lock's key is no hash
--@include clock
--@include arguments
--@include redisson/lock

local function renewed(lock, key, owner, ttl)
  local kind = redis.call('TYPE', lock).ok
  if kind ~= 'hash' and kind ~= 'none' then return 'X' end -- the other keys are still renewed
  local hold = find(lock, key, owner)
  if hold and hold.state == 'held' then return extend(hold, ttl) end
  return hold and hold.state == 'revoked' and 'V\1' or not_held(lock, key, owner)
end

local ttls, replies = {}, {}
for index = 2, #ARGV, 2 do ttls[index] = number(index, SPAN_MAX) end
for index = 2, #ARGV, 2 do
  replies[#replies + 1] = renewed(KEYS[index - 1], KEYS[index], ARGV[index - 1], ttls[index])
end
return answer(table.concat(replies))
