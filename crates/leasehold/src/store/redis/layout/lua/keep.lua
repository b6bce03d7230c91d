-- Renews, claims and describes holds.
--
-- KEYS  1 … n the gates   n + 1 the counter, if a hold is described
-- ARGV  3 for each of them: what the gate says, as far as the caller knows (`h ATTEMPT [TOKEN
--       FACTS]`), or `s REQUEST` of a shared hold; ttl (ms); what it should say (`TOKEN FACTS`), or
--       ''
-- reply a letter for each: h kept · w kept, and somebody may wait · r revoked · - not held
--       v the token is too far ahead of the clock · x the value of the gate is not ours
local names, replies, more = #ARGV / 3, {}, {}
local values = redis.call('MGET', unpack(KEYS, 1, names))
for at = 1, names do
  local value, known = values[at] or '', ARGV[3 * at - 2]
  local state = string.sub(value, 1, 1)
  local grace = state == 'h' and 0 or GRACE
  if ARGV[3 * at] == '' and state ~= 'r' and string.sub(value, 2) == string.sub(known, 2)
    and (state == 'h' or redis.call('PTTL', KEYS[at]) >= GRACE)
    and redis.call('PEXPIRE', KEYS[at], ARGV[3 * at - 1] + grace, 'GT') == 1 then
    replies[at] = state
  else
    more[#more + 1] = at
  end
end
if not more[1] then return table.concat(replies) end
--@include gate
--@include counter
--@include share

-- Of a hold that was ended by force, the list of ended attempts is left.
local function is_closed(gate, said)
  return call('LPOS', gate .. ':x', match(said, '^. (%S+)'))
end

local function keep_share(gate, said, ttl)
  local request = sub(said, 3)
  local deadline = call('ZSCORE', gate .. ':h', request)
  if deadline and tonumber(deadline) < now_ms then return '-' end
  if is_closed(gate, said) then return 'r' end
  if not deadline then return '-' end
  extend_share(gate, request, ttl)
  return call('EXISTS', gate .. ':q') == 1 and 'w' or 'h'
end

-- What a hold says, once it is described. A late request of a caller that has passed the lease on
-- changes no facts.
local function described(value, holder, old, said)
  local token, told = match(said, '^(%d+)(.*)')
  local facts = match(value, '^. %S+ %d+(.*)') or ''
  local times, before = match(told, '^%+(%d+)') or 0, match(facts, '^%+(%d+)') or 0
  if tonumber(times) < tonumber(before) then told = facts end
  local highest = old ~= '' and tonumber(old) > tonumber(token) and old or token
  return ' ' .. holder .. ' ' .. highest .. told
end

local function keep(gate, known, ttl, said)
  local state, value, holder, old = read(gate)
  if state == 'd' then return 'x' end
  if state == 's' then return keep_share(gate, known, ttl) end
  if not holder or holder ~= match(known, '^. (%S+)') then
    return is_closed(gate, known) and 'r' or '-'
  end
  if left(gate, state, holder) == 0 then return '-' end
  if state == 'r' then return 'r' end
  if said ~= '' then
    local counter, token = KEYS[names + 1], match(said, '^%d+')
    if is_too_far_ahead(counter, token) then return 'v' end
    call('SET', gate, state .. described(value, holder, old, said), 'KEEPTTL')
    raise(counter, token)
  end
  prolong(gate, ttl + (state == 'h' and 0 or GRACE))
  return state
end

for _, at in ipairs(more) do
  replies[at] = keep(KEYS[at], ARGV[3 * at - 2], tonumber(ARGV[3 * at - 1]), ARGV[3 * at])
end
return table.concat(replies)
