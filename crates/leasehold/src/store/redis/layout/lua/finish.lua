-- Ends what an attempt has: its hold, its share or its place in the queue. `stays` says what is
-- left of it: the cooldown (ms), how long it says that this run has succeeded (ms), and 1 if a copy
-- of a request may still arrive. Returns 1 ended, 0 there was nothing, or x if the value is not
-- ours.
--@include counter
--@include attempt
--@include serve
local function finish(gate, value, request, counter, prefix, stays)
  local cool, done, closes = match(stays, '(%d+) (%d+) (%d)')
  local attempt, state, _, holder, first, second = match(request, '^%S+'), read(gate, value)
  if state == 'd' then return 'x' end
  local held = holder == attempt
  local shared = state == 's' and leave(gate, ':h', request) == 1
  local ended = leave(gate, ':q', request) == 1 or held or shared
  if closes == '1' then close(gate, attempt, not (held or shared) and state, value) end
  if held and state ~= 'r' and first ~= '' and (done or '0') ~= '0' then
    local began = math.min(math.floor(first / 1000), now_ms)
    call('SET', gate .. ':d', began .. ' ' .. now_ms .. ' ' .. first .. ' ' .. request, 'PX', done)
  end
  if held and state ~= 'r' and (cool or '0') ~= '0' then
    local grace = call('EXISTS', gate .. ':q') * GRACE
    local life = math.max(cool + grace, call('PTTL', gate .. ':x'))
    call('SET', gate, 'k ' .. now_ms + cool .. ' ' .. request, 'PX', life)
  elseif held then
    serve(gate, counter, prefix, 0, 0)
  elseif shared then
    --@include share
    local used = used_of(gate, first) - match(request, ' (%d+)')
    serve(gate, counter, prefix, used, tonumber(second))
  end
  return ended and '1' or '0'
end
