-- Gives the lease of a plain lock to the first adopter: compare and set.
--
-- KEYS  1 the lock's key
-- ARGV  1 the beginning of the attempt's values: `leasehold-1 ID `
--       2 the part behind the token in them: ` held FACTS`
--       3 the beginning of the values of the attempt that handed the lease out
--       4 its token (µs, or 0 for any)   5 ttl (µs)   6 not after (µs)
--       7 the least token that is requested (µs, or 0)
-- reply packed as by native/adopt.lua: 'G' granted, 'L' late, 'N' not held, 'R' refused: 'B'
--       ballot, or 'V' revoked
--@include clock
--@include arguments
--@include plain/value

local mine, rest, theirs, expected = ARGV[1], ARGV[2], ARGV[3], number(4, TIME_MAX)
local ttl, not_after, asked = number(5, SPAN_MAX), number(6, TIME_MAX), number(7, TIME_MAX)
if now > not_after then return answer('L') end
if asked > now + BALLOT_LEAD then return answer('RB') end
local value = value_of(KEYS[1], redis.call)
local token, state = parts_of(value, mine)
-- For a copy of an adoption that was done, the same grant again.
if state == 'held' then return answer(extend(KEYS[1], token, ttl)) end
if not token then
  token, state = parts_of(value, theirs)
  if token and expected > 0 and tonumber(token) ~= expected then state = nil end
end
if state == 'revoked' then return answer('V\1') end
if state ~= 'held' then return answer(not_held(value)) end
token = math.max(asked, now, tonumber(token) + 1)
local at = math.max(end_of(ttl), redis.call('PEXPIRETIME', KEYS[1]))
redis.call('SET', KEYS[1], mine .. string.format('%.0f', token) .. rest, 'PXAT',
  string.format('%.0f', at))
return answer(granted(token, at))
