-- Shows a name.
--
-- KEYS  1 the gate   ARGV  1 the most waiters and holders to list
-- reply the time; what the gate says, and how long it lives (ms); how many wait, and the first of
--       them with their places; shared holds with their deadlines, their tokens, and attempts that
--       have ended; the last run that has succeeded
local call, gate, last = redis.call, KEYS[1], ARGV[1] - 1
local queue, shares, tokens = gate .. ':q', {}, {}
local value = redis.pcall('GET', gate)
if type(value) == 'table' then
  if string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then error(value) end
  value = value.err -- no gate says that
end
if value and string.sub(value, 1, 1) == 's' then
  shares = call('ZRANGE', gate .. ':h', 0, last, 'WITHSCORES')
  for at = 1, #shares, 2 do
    tokens[#tokens + 1] = call('HGET', gate .. ':w', string.match(shares[at], '^%S+')) or '0'
  end
end
return { call('TIME'), value, call('PTTL', gate), call('ZCARD', queue),
  call('ZRANGE', queue, 0, last, 'WITHSCORES'), shares, tokens,
  call('LRANGE', gate .. ':x', 0, -1), call('GET', gate .. ':d') }
