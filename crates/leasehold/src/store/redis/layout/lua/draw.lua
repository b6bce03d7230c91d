-- Draws the numbers of grants beside their SETs, in one MULTI, or sets one name with its number.
-- The last number is not behind the clock, and no number is drawn twice.
--
-- KEYS  1 the counter               ARGV  1 how many
-- or    1 the gate, 2 the counter         the words of the SET behind its key
-- reply the last of the numbers; nil if there was the gate
--@include clock
if KEYS[2] and not redis.call('SET', KEYS[1], unpack(ARGV)) then return false end
local counter, count = KEYS[2] or KEYS[1], KEYS[2] and 1 or ARGV[1]
local number = redis.call('INCRBY', counter, count)
local behind = now + count - 1 - number
return behind > 0 and redis.call('INCRBY', counter, behind) or number
