-- What the scripts share: the keys of a name, the clock, and who gets the name next.
--
-- GATE       a string while the name is not simply free:
--   h ATTEMPT [TOKEN FACTS]           held, and nobody waits: the key lives until the deadline
--   w ATTEMPT [TOKEN FACTS]           held, and somebody may wait: the key outlives the deadline
--   r ATTEMPT [TOKEN FACTS]           the same, and an operator has revoked the hold
--   s USED CAPACITY                   shared; the key outlives the last deadline
--   k FREE [REQUEST]                  nobody's until FREE (ms), by the min_hold of this request
--   x                                 free, but not for attempts that have ended
-- GATE:q     sorted set: request ("ATTEMPT WHAT FACTS") → place, while somebody waits
-- GATE:w     hash: attempt → when it asked last (ms), of waiters that have asked again; the token,
--            of shared holds
-- GATE:h     sorted set: request → deadline (ms) of readers and permits
-- GATE:x     list: attempts that have ended, of which a request may still arrive
-- GATE:d     the last run that has succeeded: BEGAN ENDED (ms) TOKEN REQUEST
--
-- WHAT is * for exclusive, or WEIGHT/CAPACITY. An attempt is "CLIENT-NUMBER". A TOKEN may have
-- +TIMES+MICROSECONDS after its digits, if the lease was passed on.
--@include clock
local call, sub, match, format = redis.call, string.sub, string.match, string.format
local now_ms = math.floor(now / 1000)

-- As text, since Lua's own conversion keeps 14 digits only.
local function text(number)
  return format('%.0f', number)
end

-- What a gate says: its state, what follows, and both. The state d is a value that is not ours.
local HOLD = '^%x+%-%d+'
local SHAPES = { h = HOLD, w = HOLD, r = HOLD, s = '^%d+ %d+$', k = '^%d+', x = '^$' }
local function read(gate)
  local value = redis.pcall('GET', gate)
  if type(value) == 'table' then
    if sub(value.err, 1, 9) ~= 'WRONGTYPE' then error(value) end
    return 'd', ''
  end
  if not value then return 'x', '' end
  local state, rest = sub(value, 1, 1), sub(value, 3)
  local shape = SHAPES[state]
  if not (shape and match(rest, shape)) then return 'd', '' end
  return state, rest, value
end

-- The next number. It is not behind the clock, or not below the ballot that a caller proposes to
-- all nodes of a quorum.
local function draw(counter, ballot)
  local number = call('INCR', counter)
  local least = ballot and math.max(ballot, now - BALLOT_LEAD) or now
  if number < least then number = call('INCRBY', counter, text(least - number)) end
  return text(number)
end

-- The counter is not behind a token.
local function raise(counter, token)
  if tonumber(call('GET', counter) or '0') < tonumber(token) then call('SET', counter, token) end
end

-- Whether a token would spoil all later tokens.
local function is_too_far_ahead(counter, token)
  return tonumber(token) > math.max(now, call('GET', counter) or 0) + BALLOT_LEAD
end

-- For how long the gate keeps others out (ms): its state, and what it says after the state.
local function left(gate, state, rest)
  if state == 'k' then return math.max(match(rest, '^%d+') - now_ms, 0) end
  if state ~= 'h' and state ~= 'w' and state ~= 'r' then return 0 end
  return math.max(call('PTTL', gate) + 1 - (state == 'h' and 0 or GRACE), 0)
end

-- A key lives for `life` (ms) at least.
local function outlive(key, life)
  if call('PEXPIRE', key, life, 'GT') == 0 then call('PEXPIRE', key, life, 'NX') end
end

-- The end of a gate moves, and never comes earlier. It is written even if it stays: a client waits
-- for replicas to acknowledge this write. A script without a write would count as acknowledged.
local function prolong(gate, life)
  if call('PEXPIRE', gate, life, 'GT') == 1 then return end
  local at = call('PEXPIRETIME', gate)
  if at > 0 then call('PEXPIREAT', gate, at) end
end

local function leave(gate, request)
  local waited = call('ZREM', gate .. ':q', request)
  if waited == 1 then call('HDEL', gate .. ':w', match(request, '^%S+')) end
  return waited
end

-- The end of a shared hold moves, and never comes earlier.
local function extend_share(gate, request, ttl)
  call('ZADD', gate .. ':h', 'GT', text(now_ms + ttl), request)
  call('PEXPIRE', gate .. ':h', ttl + GRACE, 'GT')
  call('PEXPIRE', gate .. ':w', ttl + GRACE, 'GT')
  prolong(gate, ttl + GRACE)
end

local function weight_of(request)
  return match(request, '^%S+ (%d+)')
end

local function end_share(gate, request)
  call('HDEL', gate .. ':w', match(request, '^%S+'))
  return call('ZREM', gate .. ':h', request)
end

-- The request of a shared hold, and its deadline.
local function share_of(gate, state, attempt)
  local shares = state == 's' and call('ZRANGE', gate .. ':h', 0, -1, 'WITHSCORES') or {}
  for at = 1, #shares, 2 do
    if match(shares[at], '^%S+') == attempt then return shares[at], tonumber(shares[at + 1]) end
  end
end

-- Ends some of the shared holds whose time is over. Returns what still holds, of what capacity.
local function used_of(gate, rest)
  local used, capacity = match(rest, '^(%d+) (%d+)')
  local over = call('ZRANGE', gate .. ':h', '-inf', '(' .. now_ms, 'BYSCORE', 'LIMIT', 0, BATCH)
  for _, request in ipairs(over) do
    used = used - weight_of(request)
    end_share(gate, request)
  end
  return tonumber(used), tonumber(capacity)
end

-- Writes the gate of a name that no exclusive hold has.
local function settle(gate, used, capacity)
  local ended = call('PTTL', gate .. ':x')
  if used > 0 then
    local latest = call('ZRANGE', gate .. ':h', -1, -1, 'WITHSCORES')[2]
    call('SET', gate, 's ' .. text(used) .. ' ' .. text(capacity), 'PX', latest - now_ms + GRACE)
  elseif call('EXISTS', gate .. ':q') == 1 then
    -- The next client to ask serves the queue.
    call('SET', gate, 'k ' .. text(now_ms), 'PX', math.max(GRACE, ended))
  elseif ended > 0 then
    call('SET', gate, 'x', 'PX', ended)
  else
    call('DEL', gate)
  end
end

-- Gives a hold. A holder that has to claim it, or that somebody may wait for, ends by a script.
local function grant(gate, request, token, life, is_own, used, capacity)
  local attempt, what, facts = match(request, '^(%S+) (%S+)(.*)')
  if what ~= '*' then
    local weight, limit = match(what, '^(%d+)/(%d+)')
    -- What outlived the gate that it was written with does not count.
    if used == 0 then call('DEL', gate .. ':h') end
    call('ZADD', gate .. ':h', text(now_ms + life), request)
    call('HSET', gate .. ':w', attempt, token)
    outlive(gate .. ':h', life + GRACE)
    outlive(gate .. ':w', life + GRACE)
    return used + weight, tonumber(limit)
  end
  -- While a slot moves, each command has one key.
  local is_alone = is_own and call('EXISTS', gate .. ':q') + call('EXISTS', gate .. ':x') == 0
  local state = is_alone and 'h' or 'w'
  local value = state .. ' ' .. attempt .. ' ' .. token .. facts
  call('SET', gate, value, 'PX', life + (state == 'w' and GRACE or 0))
end

local function fits(what, used, capacity)
  if used == 0 then return true end
  local weight, limit = match(what, '^(%d+)/(%d+)')
  return weight and tonumber(limit) == capacity and used + weight <= capacity
end

-- Tells a client. A server that denies PUBLISH must not make the step fail: waiters then learn of
-- it by asking.
local function tell(prefix, attempt, message)
  redis.pcall('PUBLISH', prefix .. match(attempt, '^[^-]+'), message)
end

-- Grants the name to the first waiters. `own` is the request of the caller, if it takes: it gets
-- `ttl`, and the others have to claim their grants. Returns the caller's token.
--
-- A waiter that has not asked for too long is passed over: it joins again when it goes on.
local function serve(gate, counter, prefix, used, capacity, own, ttl, ballot)
  local token_of_own
  for _ = 1, shut_us > 0 and 0 or BATCH do
    local first = call('ZRANGE', gate .. ':q', 0, 0, 'WITHSCORES')
    local request, is_own = first[1], first[1] == own
    if not request then break end
    local attempt, what = match(request, '^(%S+) (%S+)')
    local again = call('HGET', gate .. ':w', attempt)
    local asked = again or math.floor(first[2] / 1000)
    local is_there = is_own or asked + ASK + WINDOW >= now_ms
    if is_there and not fits(what, used, capacity) then break end
    call('ZREM', gate .. ':q', request)
    if again then call('HDEL', gate .. ':w', attempt) end
    if is_there then
      local token = draw(counter, is_own and ballot)
      local life = is_own and ttl or WINDOW
      used, capacity = grant(gate, request, token, life, is_own, used, capacity)
      if is_own then
        token_of_own = token
      else
        tell(prefix, attempt, 'G ' .. attempt .. ' ' .. token .. ' ' .. text(now))
      end
      if not used then return token_of_own end
    end
  end
  settle(gate, used, capacity)
  return token_of_own
end

-- Remembers that an attempt has ended. A quick release of another would leave nothing behind.
local function close(gate, attempt)
  local ended, value = gate .. ':x', call('GET', gate)
  if not call('LPOS', ended, attempt) then
    call('RPUSH', ended, attempt)
    call('LTRIM', ended, -MAX_CLOSED, -1)
  end
  outlive(ended, CLOSED)
  local state, life = value and sub(value, 1, 1) or 'x', call('PTTL', ended)
  if state == 'x' then
    call('SET', gate, 'x', 'PX', life)
  elseif state == 'h' then
    call('SET', gate, 'w' .. sub(value, 2), 'PX', call('PTTL', gate) + GRACE)
  elseif state == 'k' then
    call('PEXPIRE', gate, life, 'GT')
  end
end
