-- Changes the facts of the holder of a plain lock.
--
-- KEYS  1 the lock's key
-- ARGV  1 the beginning of the attempt's values: `leasehold-1 ID `
--       2 the part behind the token in them: ` held FACTS`
-- reply packed as by native/describe.lua: 'G' granted, 'N' not held, or 'V' revoked
--@include clock
--@include plain/value

local mine, rest = ARGV[1], ARGV[2]
local value = value_of(KEYS[1], redis.call)
local token, state, facts = parts_of(value, mine)
if state == 'revoked' then return answer('V\1') end
if state ~= 'held' then return answer(not_held(value)) end
-- A late request that was sent before the lease was passed on changes nothing.
if passes_of(string.sub(rest, 7)) < passes_of(facts) then rest = ' held ' .. facts end
redis.call('SET', KEYS[1], mine .. token .. rest, 'KEEPTTL')
return answer(granted(token, math.max(0, redis.call('PEXPIRETIME', KEYS[1]))))
