-- Ends only the hold of a lock of Redisson's that the operator has seen.
--
-- KEYS  1 the lock   2 the hold's key
-- ARGV  1 owner   2 the token it was seen with (µs)   3 force: 0 or 1
--       4 the command that publishes   5 and 6 the channels of the lock
--       7 its client's inbox   8 the message for it
--       9 how often the lease was passed on, as that token says
-- reply packed as by native/revoke.lua: 'V' revoked: whether that token was held (1)
--@include clock
--@include arguments
--@include redisson/lock

local force, hold = number(3, 1) == 1, find(KEYS[1], KEYS[2], ARGV[1])
local passes = number(9, TIME_MAX)
if not hold or hold.token ~= ARGV[2] or passes < passes_of(hold.facts) then
  return answer('V\0')
end
local is_cooldown, is_free = hold.state == 'cooldown', false
-- A cooldown has no holder who could be asked to release.
if force or is_cooldown then
  is_free = drop(hold)
else
  hold.state = 'revoked'
  write(hold)
end
if is_free then tell(ARGV[4], { ARGV[5], ARGV[6] }, hold.writes) end
if not is_cooldown then redis.pcall('PUBLISH', ARGV[7], ARGV[8]) end
return answer('V\1')
