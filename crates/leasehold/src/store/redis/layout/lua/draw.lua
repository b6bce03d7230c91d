-- Draws the numbers of grants beside their SETs, in one MULTI: the last of them is not behind the
-- clock, and no number is drawn twice.
--
-- KEYS  1 the counter   ARGV  1 how many
-- reply the last of the numbers
--@include clock
local number = redis.call('INCRBY', KEYS[1], ARGV[1])
local behind = now + ARGV[1] - 1 - number
if behind > 0 then return redis.call('INCRBY', KEYS[1], behind) end
return number
