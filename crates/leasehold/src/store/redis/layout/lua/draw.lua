-- Draws the numbers of grants beside their SETs, in one MULTI: the last of them is not behind the
-- clock, and no number is drawn twice.
--
-- KEYS  1 the counter   ARGV  1 how many
-- reply the last of the numbers
--@include clock
local number = redis.call('INCRBY', KEYS[1], ARGV[1])
local least = now + ARGV[1] - 1
if number < least then
  number = redis.call('INCRBY', KEYS[1], string.format('%.0f', least - number))
end
return number
