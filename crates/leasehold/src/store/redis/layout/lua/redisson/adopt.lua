-- Gives the lease of a lock of Redisson's to the first adopter.
--
-- KEYS  1 the lock   2 the new hold's key   3 the key of the hold that was handed out
--       4 the counter of tokens, with layout=redisson-fenced
-- ARGV  1 owner   2 the beginning of the hold's value: `leasehold-1 ID `
--       3 the part behind the token in it: ` held FACTS`
--       4 the owner that handed the lease out   5 its token (µs)
--       6 ttl (µs)   7 not after (µs)   8 reads: 0 or 1
-- reply packed as by native/adopt.lua: 'G' granted, 'L' late, 'N' not held, 'S' stale, or
--       'V' revoked
--@include clock
--@include arguments
--@include redisson/lock

local lock, key, owner, begin, rest = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local before, expected = ARGV[4], number(5, TIME_MAX)
local ttl, not_after, reads = number(6, SPAN_MAX), number(7, TIME_MAX), number(8, 1) == 1
if now > not_after then return answer('L') end
local hold, trace = find(lock, key, owner)
-- For a copy of an adoption that was done, the same grant again.
if hold and hold.state == 'held' then return answer(extend(hold, ttl)) end
if hold or trace then return answer('S') end
hold = find(lock, KEYS[3], before)
local is_theirs = hold and tonumber(hold.token) == expected and reads == not hold.writes
if not is_theirs or hold.state == 'cooldown' then return answer(not_held(lock, key, owner)) end
if hold.state == 'revoked' then return answer('V\1') end
local token, since = mint(KEYS[4], expected + 1)
local suffix = hold.writes and ':write' or ''
redis.call('HSET', lock, owner .. suffix, 1)
redis.call('HDEL', lock, before .. suffix)
local at = exact(redis.call('PEXPIRETIME', KEYS[3]))
redis.call('SET', key, begin .. token .. since .. rest, 'PXAT', at)
leave_tombstone(KEYS[3])
return answer(extend({ lock = lock, key = key, writes = hold.writes, token = token }, ttl))
