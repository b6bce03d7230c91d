-- Ends a hold of a plain lock: compare and delete.
--
-- KEYS  1 the lock's key
-- ARGV  1 the beginning of the attempt's values: `leasehold-1 ID `
--       2 how much longer the name stays taken, without a holder (ms, or 0)
-- reply as of end.lua
--@include clock
--@include plain/value

local key, mine, cooldown = KEYS[1], ARGV[1], tonumber(ARGV[2])
local value = redis.call('GETRANGE', key, 0, PLAIN_BYTES - 1)
local token, state, facts = parts_of(value, mine)
if not token or state == 'cooldown' then return '0' end
if cooldown > 0 and state == 'held' then
  redis.call('SET', key, mine .. token .. ' cooldown ' .. facts, 'PXAT', end_of(cooldown))
else
  redis.call('DEL', key)
end
return '1'
