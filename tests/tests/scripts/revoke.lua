#!lua flags=allow-oom
-- Ends a hold for an operator: at its deadline, or at once.
--
-- KEYS  1 the gate   2 the counter
-- ARGV  1 the attempt   2 1 if at once   3 prefix of inboxes
-- reply 1 if the attempt held
--@include gate
local gate, attempt, at_once, prefix = KEYS[1], ARGV[1], ARGV[2] == '1', ARGV[3]
local value = call('GET', gate) or 'x'
local state, rest = sub(value, 1, 1), sub(value, 3)
local held = match(value, '^[hwr] (%S+)') == attempt
local used, capacity, share = 0, 0, nil
if state == 's' then
  for _, request in ipairs(call('ZRANGE', gate .. ':h', 0, -1)) do
    if match(request, '^%S+') == attempt then share = request end
  end
end
if not held and not share then return 0 end
redis.pcall('PUBLISH', prefix .. match(attempt, '^[^.]+'), 'R ' .. attempt .. ' ' .. ARGV[2])
if not at_once and held then
  local life = call('PTTL', gate) + (state == 'h' and GRACE or 0)
  call('SET', gate, 'r' .. sub(value, 2), 'PX', life)
  return 1
end
if held then call('DEL', gate) end
if share and at_once then
  call('ZREM', gate .. ':h', share)
  used, capacity = used_of(gate, rest)
  used = used - match(share, '^%S+ (%d+)')
end
close(gate, attempt)
if at_once then serve(gate, KEYS[2], prefix, used, capacity) end
return 1
