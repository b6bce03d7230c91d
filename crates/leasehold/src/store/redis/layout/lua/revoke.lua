-- Ends a hold for an operator: at its deadline, or at once. Ends the cooldown after it at once.
--
-- KEYS  1 the gate   2 the counter
-- ARGV  1 the attempt   2 1 if at once, or 0   3 prefix of inboxes
-- reply 1 if the attempt held, or 0 · x the value of the gate is not ours
--@include guard
--@include gate
--@include share
--@include finish
local gate, attempt, at_once, prefix = KEYS[1], ARGV[1], ARGV[2] == '1', ARGV[3]
local state, value, holder, first, second = read(gate)
if state == 'd' then return 'x' end
if state == 'k' and match(second, '^%S*') == attempt and tonumber(first) > now_ms then
  serve(gate, KEYS[2], prefix, 0, 0)
  return '1'
end
local held, share, deadline = holder == attempt, share_of(gate, state == 's' and attempt)
if not held and not share then return '0' end
tell(prefix, attempt, 'R ' .. attempt .. ' ' .. ARGV[2])
if at_once then return finish(gate, value, share or attempt, KEYS[2], prefix, '0 0 1') end
if held then
  local life = call('PTTL', gate) + (state == 'h' and GRACE or 0)
  call('SET', gate, 'r' .. sub(value, 2), 'PX', life)
else
  close(gate, attempt, state)
  outlive(gate .. ':x', deadline - now_ms) -- the share is not renewed any more
end
return '1'
