-- Moves the ends of holds of Redisson's locks forward, and says who holds them.
--
-- KEYS  2 for each: the lock, and the hold's key
-- ARGV  3 for each: the owner; ttl (ms); the part behind the token that the hold's value should
--       have (` held FACTS`), or ''
-- reply as of keep.lua, a letter for each
--@include clock
--@include redisson/lock

local function keep(lock, key, owner, ttl, said)
  local kind = redis.call('TYPE', lock).ok
  if kind ~= 'hash' and kind ~= 'none' then return 'x' end -- the other keys are still renewed
  local hold = find(lock, key, owner)
  if not hold or hold.state ~= 'held' then
    return hold and hold.state == 'revoked' and 'r' or '-'
  end
  if said ~= '' then
    -- A late request that was sent before the lease was passed on changes nothing.
    if passes_of(string.sub(said, 7)) < passes_of(hold.facts) then said = ' held ' .. hold.facts end
    redis.call('SET', key, hold.begin .. hold.token .. hold.since .. said, 'KEEPTTL')
  end
  extend(hold, ttl)
  return 'h'
end

local replies = {}
for at = 1, #ARGV / 3 do
  local owner, ttl, said = unpack(ARGV, 3 * at - 2, 3 * at)
  replies[at] = keep(KEYS[2 * at - 1], KEYS[2 * at], owner, tonumber(ttl), said)
end
return table.concat(replies)
