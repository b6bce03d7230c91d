-- Ends what an attempt has: its hold, its share or its place in the queue. `stays` says what is
-- left of it: the cooldown (ms), how long it says that this run has succeeded (ms), and 1 if a copy
-- of a request may still arrive. Returns 1 ended, 0 there was nothing, or x if the value is not
-- ours.
local function finish(gate, request, counter, prefix, stays)
  local cool, done, closes = match(stays, '(%d+) (%d+) (%d)')
  cool, done = tonumber(cool or 0), tonumber(done or 0)
  local attempt, state, rest = match(request, '^%S+'), read(gate)
  if state == 'd' then return 'x' end
  local held = match(state, '[hwr]') and match(rest, '^%S+') == attempt
  local waited = not held and leave(gate, request) == 1
  local shared = state == 's' and end_share(gate, request) == 1
  if held and closes == '1' then call('DEL', gate) end
  if closes == '1' then close(gate, attempt) end
  local token = held and state ~= 'r' and match(rest, '^%S+ (%d+)')
  if token and done > 0 then
    local began = math.min(math.floor(token / 1000), now_ms)
    local last = table.concat({ text(began), text(now_ms), token, request }, ' ')
    call('SET', gate .. ':d', last, 'PX', done)
  end
  if held and state ~= 'r' and cool > 0 then
    local life = cool + (call('EXISTS', gate .. ':q') == 1 and GRACE or 0)
    life = math.max(life, call('PTTL', gate .. ':x'))
    call('SET', gate, 'k ' .. text(now_ms + cool) .. ' ' .. request, 'PX', life)
  elseif held then
    serve(gate, counter, prefix, 0, 0)
  elseif shared then
    local used, capacity = used_of(gate, rest)
    serve(gate, counter, prefix, used - weight_of(request), capacity)
  end
  return (held or shared or waited) and '1' or '0'
end
