-- Takes a plain lock, or takes its lease over, or replies that it is busy: compare and set.
--
-- KEYS  1 the lock's key
-- ARGV  1 the beginning of the attempt's values: `leasehold-1 ID `
--       2 the part behind the token in them: ` held FACTS`
--       3 ttl (ms)   4 the token that a caller proposes to all nodes of a quorum (µs), or 0
--       5 the beginning of the values of the attempt that handed the lease out, or ''
-- reply as of take.lua: G granted · B busy · C has ended · R revoked · N not held · V ballot
--@include clock
--@include plain/value

local key, mine, rest, ttl = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local ballot, theirs = tonumber(ARGV[4]), ARGV[5]
if ballot > now + BALLOT_LEAD then return 'V' end
local least = ballot > 0 and math.max(ballot, now - BALLOT_LEAD) or now
local value = redis.call('GETRANGE', key, 0, PLAIN_BYTES - 1)
local token, state = parts_of(value, mine)
-- For a copy of a request that was granted, the same grant again. A bare SET NX would reply busy.
if state == 'held' then
  extend(key, ttl)
  return 'G ' .. token
end
if token then return state == 'revoked' and 'R' or 'C' end
if theirs ~= '' then
  token, state = parts_of(value, theirs)
  if state ~= 'held' then return state == 'revoked' and 'R' or 'N' end
  token = string.format('%.0f', math.max(least, tonumber(token) + 1))
  redis.call('SET', key, mine .. token .. rest, 'KEEPTTL')
  extend(key, ttl)
  return 'G ' .. token
end
if value == '' then
  token = string.format('%.0f', least)
  if redis.call('SET', key, mine .. token .. rest, 'NX', 'PXAT', end_of(ttl)) then
    return 'G ' .. token
  end
end
-- A key ends when its last millisecond is over. A waiter for a key without an end asks now and
-- then.
local until_ms = redis.call('PEXPIRETIME', key)
return 'B ' .. (until_ms < 0 and ASK or math.max(0, until_ms + 1 - math.floor(now / 1000)))
