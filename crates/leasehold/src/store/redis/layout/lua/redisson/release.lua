-- Ends a hold of a lock of Redisson's, and wakes the waiters.
--
-- KEYS  1 the lock   2 the hold's key
-- ARGV  1 owner   2 how much longer the name stays taken, without a holder (µs, or 0)
--       3 whether a copy of its acquire may still arrive: 0 no, 1 yes, 2 only if there is no hold
--       4 the command that publishes   5 and 6 the channels of the lock
-- reply packed as by native/release.lua: 'F' released, or 'N' not held
--@include clock
--@include arguments
--@include redisson/lock

local lock, key, owner = KEYS[1], KEYS[2], ARGV[1]
local cooldown, late = number(2, SPAN_MAX), number(3, 2)
local hold = find(lock, key, owner)
if hold and hold.state == 'cooldown' then return answer('F') end
if not hold then
  local reply, rest = not_held(lock, key, owner), rest_of(lock, key, owner)
  local is_free = rest and drop(rest)
  if late > 0 then leave_tombstone(key) end
  if is_free then tell(ARGV[4], { ARGV[5], ARGV[6] }, rest.writes) end
  return answer(reply)
end
if cooldown > 0 then
  hold.state = 'cooldown'
  write(hold)
  redis.call('PEXPIREAT', key, exact(end_of(cooldown)))
  local of_hash = hold.writes and 0 or last_end(lock, base_of(key, owner))
  redis.call('PEXPIREAT', lock, exact(math.max(end_of(cooldown), of_hash)))
  -- The hold's key has to end with the cooldown, perhaps before the last copy has arrived.
  if late == 1 then leave_tombstone(second(key)) end
  return answer('F')
end
local is_free = drop(hold)
if late == 1 then leave_tombstone(key) end
if is_free then tell(ARGV[4], { ARGV[5], ARGV[6] }, hold.writes) end
return answer('F')
