-- Shows a name.
--
-- KEYS  1 the gate   ARGV  1 the most waiters and holders to list
-- reply the time; what the gate says, and how long it lives (ms); how many wait, and the first of
--       them with their places; shared holds with their deadlines, their tokens, and attempts that
--       have ended; the last run that has succeeded
--@include gate
-- A range to -1 would be all.
local gate, last, tokens = KEYS[1], ARGV[1] == '0' and -MAX_WAITING - 1 or ARGV[1] - 1, {}
local _, value = read(gate)
local shares = call('ZRANGE', gate .. ':h', 0, last, 'WITHSCORES')
for at = 1, #shares, 2 do
  tokens[#tokens + 1] = call('HGET', gate .. ':w', match(shares[at], '^%S+')) or '0'
end
return { time, value, call('PTTL', gate), call('ZCARD', gate .. ':q'),
  call('ZRANGE', gate .. ':q', 0, last, 'WITHSCORES'), shares, tokens,
  call('LRANGE', gate .. ':x', 0, -1), call('GET', gate .. ':d') }
