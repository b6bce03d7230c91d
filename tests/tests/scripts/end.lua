#!lua flags=allow-oom
-- Ends up to 64 holds or waits, and hands the names on.
--
-- KEYS  1 … n the gates   n + 1 the counter
-- ARGV  1 … n "h ATTEMPT [TOKEN FACTS]", what the gate says if nobody waits; or "q REQUEST" of an
--       attempt that may wait, or that shares the name   n + 1 prefix of inboxes
--       n + 2 for how long the name stays taken (ms), or 0   n + 3 for how long it says who held it
--       (ms), or 0   n + 4 the facts to say   n + 5 1 if a copy of a request may still arrive
-- reply how many there were to end
local names, free, more, ended = #KEYS - 1, {}, {}, 0
local values = redis.call('MGET', unpack(KEYS, 1, names))
for at = 1, names do
  if values[at] == ARGV[at] and #ARGV == names + 1 then
    free[#free + 1] = KEYS[at]
  else
    more[#more + 1] = at
  end
end
if free[1] then ended = redis.call('DEL', unpack(free)) end
if not more[1] then return ended end
--@include gate

local counter, prefix = KEYS[names + 1], ARGV[names + 1]
local cool, remember = tonumber(ARGV[names + 2] or '0'), tonumber(ARGV[names + 3] or '0')
local facts, closes = ARGV[names + 4], ARGV[names + 5] == '1'
for _, at in ipairs(more) do
  local gate, value, said = KEYS[at], values[at] or 'x', ARGV[at]
  local request, state, rest = sub(said, 3), sub(value, 1, 1), sub(value, 3)
  local attempt = match(request, '^%S+')
  local waited = sub(said, 1, 1) == 'q' and leave(gate, request) == 1
  local held = match(value, '^[hwr] (%S+)') == attempt
  local shared = state == 's' and call('ZREM', gate .. ':h', request) == 1
  if held then call('DEL', gate) end
  if closes then close(gate, attempt) end
  local used, capacity, last, is_shut = 0, 0, nil, false
  if held and (cool > 0 or remember > 0 and state ~= 'r') then
    if remember > 0 and state ~= 'r' then
      last = ' ' .. attempt .. ' ' .. text(now) .. ' ' .. facts
    end
    local waits = call('EXISTS', gate .. ':q') == 1 and cool + GRACE or 0
    local life = math.max(cool, last and remember or 0, waits, call('PTTL', gate .. ':x'), 1)
    call('SET', gate, 'k ' .. text(now + cool) .. (last or ''), 'PX', life)
    is_shut = cool > 0
  elseif shared then
    used, capacity = used_of(gate, rest)
    used = used - match(request, '^%S+ (%d+)')
  end
  if (held or shared) and not is_shut then
    serve(gate, counter, prefix, used, capacity, last)
  end
  if held or shared or waited then ended = ended + 1 end
end
return ended
