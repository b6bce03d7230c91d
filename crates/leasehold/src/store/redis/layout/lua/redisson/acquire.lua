-- Takes a lock of Redisson's, or replies that it is busy.
--
-- KEYS  1 the lock   2 the hold's key   3 the counter of tokens, with layout=redisson-fenced
-- ARGV  1 owner   2 the beginning of the hold's value: `leasehold-1 ID `
--       3 the part behind the token in it: ` held FACTS`
--       4 ttl (µs)   5 not after (µs)   6 reads: 0 or 1
-- reply packed as by native/acquire.lua: 'G' granted, 'B' busy, 'L' late, 'S' stale
--@include clock
--@include arguments
--@include redisson/lock

local lock, key, owner, begin, rest = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local ttl, not_after, reads = number(4, SPAN_MAX), number(5, TIME_MAX), number(6, 1) == 1
if now > not_after then return answer('L') end
local hold, trace = find(lock, key, owner)
-- For a copy of an acquire that was granted, the same grant again.
if hold and hold.state == 'held' then return answer(extend(hold, ttl)) end
if hold or trace then return answer('S') end
local is_free = redis.call('EXISTS', lock) == 0
if is_free or (reads and redis.call('HGET', lock, 'mode') == 'read') then
  local token, since = mint(KEYS[3], 0)
  local field = reads and owner or owner .. ':write'
  redis.call('HSET', lock, 'mode', reads and 'read' or 'write', field, 1)
  redis.call('SET', key, begin .. token .. since .. rest, 'PXAT', exact(end_of(1)))
  return answer(extend({ lock = lock, key = key, writes = not reads, token = token }, ttl))
end
-- A key ends when its last millisecond is over. A waiter for a key without an end asks now and
-- then.
local until_ms = redis.call('PEXPIRETIME', lock)
local left = until_ms < 0 and POLL_INTERVAL or (until_ms + 1) * 1000 - now
return answer(struct.pack('<c1d', 'B', math.max(0, left)))
