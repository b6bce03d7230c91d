-- Moves the ends of plain locks forward: compare and expire.
--
-- KEYS  each the key of a lock
-- ARGV  for each of them: the beginning of the attempt's values, and the ttl (µs)
-- reply packed as by native/renew.lua, for each: 'G' granted, 'N' not held, 'V' revoked, or
--   'X' the key is no string
--@include clock
--@include arguments
--@include plain/value

local function renewed(key, mine, ttl)
  local value = value_of(key, redis.pcall)
  if type(value) ~= 'string' then return 'X' end -- the other keys are still renewed
  local token, state = parts_of(value, mine)
  if state == 'held' then return extend(key, token, ttl) end
  return state == 'revoked' and 'V\1' or not_held(value)
end

local ttls, replies = {}, {}
for index in ipairs(KEYS) do ttls[index] = number(2 * index, SPAN_MAX) end
for index, key in ipairs(KEYS) do
  replies[index] = renewed(key, ARGV[2 * index - 1], ttls[index])
end
return answer(table.concat(replies))
