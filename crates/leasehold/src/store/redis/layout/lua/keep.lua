-- Renews, claims and describes holds.
--
-- KEYS  1 … n the gates   n + 1 the counter, if a hold is described
-- ARGV  3 for each of them: what the gate says, as far as the caller knows (`h ATTEMPT [TOKEN
--       FACTS]`), or `s REQUEST` of a shared hold; ttl (ms); what it should say (`TOKEN FACTS`), or
--       ''
-- reply a letter for each: h kept · w kept, and somebody may wait · r revoked · - not held
--       v the token is too far ahead of the clock · x the value of the gate is not ours
local names, replies, is_all = #ARGV / 3, {}, true
local values = redis.call('MGET', unpack(KEYS, 1, names))
for at = 1, names do
  local value = values[at] or ''
  local state = string.sub(value, 1, 1)
  local grace = state == 'h' and 0 or GRACE
  replies[at] = ARGV[3 * at] == '' and state ~= 'r'
    and string.sub(value, 2) == string.sub(ARGV[3 * at - 2], 2)
    and (state == 'h' or redis.call('PTTL', KEYS[at]) >= GRACE)
    and redis.call('PEXPIRE', KEYS[at], ARGV[3 * at - 1] + grace, 'GT') == 1 and state
  is_all = is_all and replies[at]
end
if is_all then return table.concat(replies) end
--@include gate
--@include lease
--@include attempt
--@include share

local function keep(gate, known, ttl, said)
  local state, value, holder, old = read(gate)
  if state == 'd' then return 'x' end
  local attempt, request = match(known, '^. (%S+)'), sub(known, 3)
  local deadline = state == 's' and call('ZSCORE', gate .. ':h', request)
  if deadline and tonumber(deadline) < now_ms then return '-' end
  -- Of a hold that was ended by force, the list of ended attempts is left.
  -- While a slot moves, a key that is not there is an error.
  local ended = holder ~= attempt and redis.pcall('LPOS', gate .. ':x', attempt)
  if type(ended) == 'number' then return 'r' end
  if deadline then
    extend_share(gate, request, ttl)
    return redis.pcall('EXISTS', gate .. ':q') == 0 and 'h' or 'w'
  end
  if holder ~= attempt or left(gate, state, holder) == 0 then return '-' end
  if state == 'r' then return 'r' end
  if said ~= '' then
    local counter, token, told = KEYS[names + 1], match(said, '^(%d+)(.*)')
    if is_too_far_ahead(counter, token) then return 'v' end
    -- A late request of a caller that has passed the lease on changes no facts.
    local facts = match(value, '^. %S+ %d+(.*)') or ''
    local times, before = match(told, '^%+(%d+)') or 0, match(facts, '^%+(%d+)') or 0
    if tonumber(times) < tonumber(before) then told = facts end
    local highest = old ~= '' and tonumber(old) > tonumber(token) and old or token
    call('SET', gate, state .. ' ' .. holder .. ' ' .. highest .. told, 'KEEPTTL')
    raise(counter, token)
  end
  outlive(gate, ttl + (state == 'h' and 0 or GRACE))
  return state
end

for at = 1, names do
  replies[at] = replies[at]
    or keep(KEYS[at], ARGV[3 * at - 2], tonumber(ARGV[3 * at - 1]), ARGV[3 * at])
end
return table.concat(replies)
