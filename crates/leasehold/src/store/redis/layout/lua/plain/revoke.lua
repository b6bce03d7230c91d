-- Ends only the hold of a plain lock that the operator has seen.
--
-- KEYS  1 the lock's key
-- ARGV  1 the beginning of the attempt's values: `leasehold-1 ID `
--       2 the token it was seen with (µs)   3 force: 0 or 1
--       4 its client's inbox   5 the message for it
--       6 how often the lease was passed on, as that token says
-- reply packed as by native/revoke.lua: 'V' revoked: whether that token was held (1)
--@include clock
--@include arguments
--@include plain/value

local mine, force = ARGV[1], number(3, 1) == 1
local token, state, facts = parts_of(value_of(KEYS[1], redis.call), mine)
local passes = number(6, TIME_MAX)
if token ~= ARGV[2] or passes < passes_of(facts) then return answer('V\0') end
-- A cooldown has no holder who could be asked to release.
if force or state == 'cooldown' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], mine .. token .. ' revoked ' .. facts, 'KEEPTTL')
end
if state ~= 'cooldown' then redis.pcall('PUBLISH', ARGV[4], ARGV[5]) end
return answer('V\1')
