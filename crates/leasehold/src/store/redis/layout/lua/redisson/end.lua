-- Ends a hold of a lock of Redisson's, and wakes the waiters.
--
-- KEYS  1 the lock   2 the hold's key
-- ARGV  1 owner   2 how much longer the name stays taken, without a holder (ms, or 0)
--       3 whether a copy of a request may still arrive: 0 or 1
--       4 the command that publishes   5 and 6 the channels of the lock
-- reply as of end.lua
--@include clock
--@include redisson/lock

local lock, key, owner = KEYS[1], KEYS[2], ARGV[1]
local cooldown, closes = tonumber(ARGV[2]), ARGV[3] == '1'
local hold = find(lock, key, owner)
if hold and hold.state == 'cooldown' then return '0' end
if not hold then
  local rest = rest_of(lock, key, owner)
  local is_free = rest and drop(rest)
  if closes then leave_tombstone(key) end
  if is_free then tell(ARGV[4], { ARGV[5], ARGV[6] }, rest.writes) end
  return '0'
end
if cooldown > 0 and hold.state == 'held' then
  hold.state = 'cooldown'
  write(hold)
  redis.call('PEXPIREAT', key, exact(end_of(cooldown)))
  local of_hash = hold.writes and 0 or last_end(lock, base_of(key, owner))
  redis.call('PEXPIREAT', lock, exact(math.max(end_of(cooldown), of_hash)))
  -- The hold's key has to end with the cooldown, perhaps before the last copy has arrived.
  if closes then leave_tombstone(second(key)) end
  return '1'
end
local is_free = drop(hold)
if closes then leave_tombstone(key) end
if is_free then tell(ARGV[4], { ARGV[5], ARGV[6] }, hold.writes) end
return '1'
