-- Changes the facts of the holder of a lock of Redisson's.
--
-- KEYS  1 the lock   2 the hold's key
-- ARGV  1 owner   2 the part behind the token in the hold's value: ` held FACTS`
-- reply packed as by native/describe.lua: 'G' granted, 'N' not held, or 'V' revoked
--@include clock
--@include redisson/lock

local hold = find(KEYS[1], KEYS[2], ARGV[1])
if hold and hold.state == 'revoked' then return answer('V\1') end
if not hold or hold.state ~= 'held' then return answer(not_held(KEYS[1], KEYS[2], ARGV[1])) end
-- A late request that was sent before the lease was passed on changes nothing.
local said = ARGV[2]
if passes_of(string.sub(said, 7)) < passes_of(hold.facts) then said = ' held ' .. hold.facts end
redis.call('SET', hold.key, hold.begin .. hold.token .. hold.since .. said, 'KEEPTTL')
return answer(granted(tonumber(hold.token), redis.call('PEXPIRETIME', hold.key)))
