-- Ends a hold of a plain lock: compare and delete.
--
-- KEYS  1 the lock's key
-- ARGV  1 the beginning of the attempt's values: `leasehold-1 ID `
--       2 how much longer the name stays taken, without a holder (µs, or 0)
-- reply packed as by native/release.lua: 'F' released, or 'N' not held
--@include clock
--@include arguments
--@include plain/value

local mine, cooldown = ARGV[1], number(2, SPAN_MAX)
local value = value_of(KEYS[1], redis.call)
local token, state, facts = parts_of(value, mine)
if not token then return answer(not_held(value)) end
if state == 'cooldown' then return answer('F') end
if cooldown > 0 then
  redis.call('SET', KEYS[1], mine .. token .. ' cooldown ' .. facts, 'PXAT',
    string.format('%.0f', end_of(cooldown)))
else
  redis.call('DEL', KEYS[1])
end
return answer('F')
