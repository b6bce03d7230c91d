-- Ends what an attempt has: its hold, its share or its place in the queue. `stays` says what is
-- left of it: the cooldown (ms), how long it says that this run has succeeded (ms), and 1 if a copy
-- of a request may still arrive. Returns 1 ended, 0 there was nothing, or x if the value is not
-- ours.
--@include counter
--@include attempt
--@include serve
local function finish(gate, value, request, counter, prefix, stays)
  local cool, done, closes = match(stays, '(%d+) (%d+) (%d)')
  cool, done = tonumber(cool or 0), tonumber(done or 0)
  local attempt, state, _, holder, first, second = match(request, '^%S+'), read(gate, value)
  if state == 'd' then return 'x' end
  local held = holder == attempt
  local ended = leave(gate, request) == 1 or held
  if held and closes == '1' then call('DEL', gate) end
  if closes == '1' then close(gate, attempt) end
  if held and state ~= 'r' and first ~= '' and done > 0 then
    local began = math.min(math.floor(first / 1000), now_ms)
    local last = table.concat({ text(began), text(now_ms), first, request }, ' ')
    call('SET', gate .. ':d', last, 'PX', done)
  end
  if held and state ~= 'r' and cool > 0 then
    local life = cool + (call('EXISTS', gate .. ':q') == 1 and GRACE or 0)
    life = math.max(life, call('PTTL', gate .. ':x'))
    call('SET', gate, 'k ' .. text(now_ms + cool) .. ' ' .. request, 'PX', life)
  elseif held then
    serve(gate, counter, prefix, 0, 0)
  elseif state == 's' then
    --@include share
    if end_share(gate, request) == 1 then
      ended = true
      serve(gate, counter, prefix, used_of(gate, first) - weight_of(request), tonumber(second))
    end
  end
  return ended and '1' or '0'
end
