#!lua flags=no-writes
-- Shows names.
--
-- KEYS  1 … n the gates   ARGV  1 the most waiters and holders to list
-- reply for each: what the gate says, how long it lives (ms), how many wait, the first of them with
--       places, holders with deadlines
local replies = {}
for at, gate in ipairs(KEYS) do
  local last = ARGV[1] - 1
  replies[at] = {
    redis.call('GET', gate), redis.call('PTTL', gate), redis.call('ZCARD', gate .. ':q'),
    redis.call('ZRANGE', gate .. ':q', 0, last, 'WITHSCORES'),
    redis.call('ZRANGE', gate .. ':h', 0, last, 'WITHSCORES'),
  }
end
return replies
