-- Takes a plain lock, or takes it back, or replies that it is busy.
--
-- KEYS  1 the lock's key
-- ARGV  1 the beginning of the attempt's values: `leasehold-1 ID `
--       2 the part behind the token in them: ` held FACTS`
--       3 ttl (µs)   4 not after (µs)
--       5 the requested token (µs, or 0)   6 how far behind the clock it may be (µs)
-- reply packed as by native/acquire.lua: 'G' granted, 'B' busy, 'L' late, 'R' refused: 'B' ballot,
--       or 'S' stale
--@include clock
--@include arguments
--@include plain/value

local mine, rest, ttl, not_after = ARGV[1], ARGV[2], number(3, SPAN_MAX), number(4, TIME_MAX)
local asked, behind = number(5, TIME_MAX), number(6, TIME_MAX)
if now > not_after then return answer('L') end
if asked > now + BALLOT_LEAD then return answer('RB') end
local value = value_of(KEYS[1], redis.call)
local token, state = parts_of(value, mine)
-- For a copy of an acquire that was granted, the same grant again. A bare SET NX would reply busy.
if token then return answer(state == 'held' and extend(KEYS[1], token, ttl) or 'S') end
if value == '' then
  token = math.max(asked, now - behind)
  value = mine .. string.format('%.0f', token) .. rest
  local at = end_of(ttl)
  if redis.call('SET', KEYS[1], value, 'NX', 'PXAT', string.format('%.0f', at)) then
    return answer(granted(token, at))
  end
end
-- A key ends when its last millisecond is over. A waiter for a key without an end asks now and
-- then.
local until_ms = redis.call('PEXPIRETIME', KEYS[1])
local left = until_ms < 0 and POLL_INTERVAL or (until_ms + 1) * 1000 - now
return answer(struct.pack('<c1d', 'B', math.max(0, left)))
