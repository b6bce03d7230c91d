-- Takes a lock of Redisson's, or takes its lease over, or replies that it is busy.
--
-- KEYS  1 the lock   2 the hold's key   3 the key of the hold that was handed out, or that of the
--       hold again   4 the counter of tokens, with layout=redisson-fenced
-- ARGV  1 owner   2 the beginning of the hold's value: `leasehold-1 ID `
--       3 the part behind the token in it: ` held FACTS`
--       4 ttl (ms)   5 reads: 0 or 1   6 the owner that handed the lease out, or ''
-- reply as of take.lua: G granted · B busy · C has ended · R revoked · N not held
--@include clock
--@include redisson/lock

local lock, key, owner, begin, rest = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local ttl, reads, before = tonumber(ARGV[4]), ARGV[5] == '1', ARGV[6]
local hold, trace = find(lock, key, owner)
-- For a copy of a request that was granted, the same grant again.
if hold and hold.state == 'held' then return granted(hold, ttl) end
if hold and hold.state == 'revoked' then return 'R' end
if hold or trace then return 'C' end
if before ~= '' then
  hold = find(lock, KEYS[3], before)
  if not hold or reads ~= not hold.writes or hold.state == 'cooldown' then return 'N' end
  if hold.state == 'revoked' then return 'R' end
  local token, since = mint(KEYS[4], tonumber(hold.token) + 1)
  local suffix = hold.writes and ':write' or ''
  redis.call('HSET', lock, owner .. suffix, 1)
  redis.call('HDEL', lock, before .. suffix)
  local at = exact(redis.call('PEXPIRETIME', KEYS[3]))
  redis.call('SET', key, begin .. token .. since .. rest, 'PXAT', at)
  leave_tombstone(KEYS[3])
  return granted(
    { lock = lock, key = key, writes = hold.writes, token = token, since = since }, ttl)
end
local is_free = redis.call('EXISTS', lock) == 0
if is_free or (reads and redis.call('HGET', lock, 'mode') == 'read') then
  local token, since = mint(KEYS[4], 0)
  local field = reads and owner or owner .. ':write'
  redis.call('HSET', lock, 'mode', reads and 'read' or 'write', field, 1)
  redis.call('SET', key, begin .. token .. since .. rest, 'PXAT', exact(end_of(1)))
  return granted({ lock = lock, key = key, writes = not reads, token = token, since = since }, ttl)
end
-- A key ends when its last millisecond is over. A waiter for a key without an end asks now and
-- then.
local until_ms = redis.call('PEXPIRETIME', lock)
return 'B ' .. (until_ms < 0 and ASK or math.max(0, until_ms + 1 - math.floor(now / 1000)))
