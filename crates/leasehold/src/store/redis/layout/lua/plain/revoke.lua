-- Ends the hold of a plain lock for an operator: at its deadline, or at once.
--
-- KEYS  1 the lock's key
-- ARGV  1 the beginning of the attempt's values: `leasehold-1 ID `   2 1 if at once, or 0
--       3 its client's inbox   4 the message for it
-- reply as of revoke.lua
--@include plain/value

local key, mine, at_once = KEYS[1], ARGV[1], ARGV[2] == '1'
local value = redis.call('GETRANGE', key, 0, PLAIN_BYTES - 1)
local token, state, facts = parts_of(value, mine)
if not token then return '0' end
-- A cooldown has no holder who could be asked to release.
if at_once or state == 'cooldown' then
  redis.call('DEL', key)
else
  redis.call('SET', key, mine .. token .. ' revoked ' .. facts, 'KEEPTTL')
end
if state ~= 'cooldown' then redis.pcall('PUBLISH', ARGV[3], ARGV[4]) end
return '1'
