-- The holder of a plain lock changes what it says of itself.
--
-- KEYS  1 the lock's key
-- ARGV  1 what the attempt's values begin with: `leasehold-1 ID `
--       2 what follows the token in them: ` held FACTS`
-- reply packed as that of describe.lua: 'G' granted, 'N' not held, or 'V' revoked
--@include clock
--@include plain/value

local mine, rest = ARGV[1], ARGV[2]
local value = value_of(KEYS[1], redis.call)
local token, state, facts = parts_of(value, mine)
if state == 'revoked' then return answer('V\1') end
if state ~= 'held' then return answer(not_held(value)) end
-- A late copy may be from before the lease was passed on, and changes nothing.
if passes_of(string.sub(rest, 7)) < passes_of(facts) then rest = ' held ' .. facts end
redis.call('SET', KEYS[1], mine .. token .. rest, 'KEEPTTL')
return answer(granted(token, math.max(0, redis.call('PEXPIRETIME', KEYS[1]))))
