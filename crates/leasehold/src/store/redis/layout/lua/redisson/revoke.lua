-- Ends a hold of a lock of Redisson's for an operator: at its deadline, or at once.
--
-- KEYS  1 the lock   2 the hold's key
-- ARGV  1 owner   2 1 if at once, or 0
--       3 the command that publishes   4 and 5 the channels of the lock
--       6 its client's inbox   7 the message for it
-- reply as of revoke.lua
--@include clock
--@include redisson/lock

local at_once, hold = ARGV[2] == '1', find(KEYS[1], KEYS[2], ARGV[1])
if not hold then return '0' end
local is_cooldown, is_free = hold.state == 'cooldown', false
-- A cooldown has no holder who could be asked to release.
if at_once or is_cooldown then
  is_free = drop(hold)
else
  hold.state = 'revoked'
  write(hold)
end
if is_free then tell(ARGV[3], { ARGV[4], ARGV[5] }, hold.writes) end
if not is_cooldown then redis.pcall('PUBLISH', ARGV[6], ARGV[7]) end
return '1'
