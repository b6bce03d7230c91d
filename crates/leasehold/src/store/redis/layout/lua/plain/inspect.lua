-- Returns the value of a plain lock, and its end; changes nothing.
--
-- KEYS  1 the lock's key
-- reply packed: now (µs), 0 (1), and
--       'P' plain: whether the key is there (1), its end (µs, or 0 for none), the value, cut to the
--         largest size of one of ours
--@include clock
--@include plain/value

local value, until_ms = value_of(KEYS[1], redis.call), redis.call('PEXPIRETIME', KEYS[1])
local is_there = until_ms ~= -2 and 1 or 0 -- an empty string is a value, too
return answer(struct.pack('<c1Bd', 'P', is_there, math.max(0, until_ms) * 1000) .. value)
