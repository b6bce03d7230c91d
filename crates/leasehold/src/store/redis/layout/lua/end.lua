-- Ends holds or waits, and hands the names on.
--
-- KEYS  1 … n the gates   n + 1 the counter; without it, only what the caller knows is ended
-- ARGV  2 for each of them: what the gate says, as far as the caller knows (`h ATTEMPT [TOKEN
--       FACTS]`), and the request
--       then: prefix of inboxes; '' if nothing stays, or how long the name stays taken (ms), how
--       long it says that this run has succeeded (ms, 0 if it has not), and 1 if a copy of a
--       request may still arrive, or 0
-- reply a letter for each: 1 ended · 0 there was nothing · x the value of the gate is not ours
--       ? for all, if the counter is needed
--@include guard
local names, stays = (#ARGV - 2) / 2, ARGV[#ARGV]
if names == 1 and stays == '' and redis.pcall('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1]) and '1'
end
local replies, free, more = {}, {}, {}
local values = redis.call('MGET', unpack(KEYS, 1, names))
for at = 1, names do
  if stays == '' and values[at] == ARGV[2 * at - 1] then
    free[#free + 1] = KEYS[at]
    replies[at] = '1'
  else
    more[#more + 1] = at
  end
end
if free[1] then redis.call('DEL', unpack(free)) end
if not more[1] then return table.concat(replies) end
if not KEYS[names + 1] then return '?' end
--@include gate

local counter, prefix = KEYS[names + 1], ARGV[#ARGV - 1]
local cool, done, closes = match(stays, '(%d+) (%d+) (%d)')
cool, done, closes = tonumber(cool or 0), tonumber(done or 0), closes == '1'

local function finish(gate, request)
  local attempt, state, rest = match(request, '^%S+'), read(gate)
  if state == 'd' then return 'x' end
  local waited = leave(gate, request) == 1
  local held = match(state, '[hwr]') and match(rest, '^%S+') == attempt
  local shared = state == 's' and end_share(gate, request) == 1
  if held then call('DEL', gate) end
  if closes then close(gate, attempt) end
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

for _, at in ipairs(more) do replies[at] = finish(KEYS[at], ARGV[2 * at]) end
return table.concat(replies)
