-- What the scripts share: the keys of a name, the clock, and who gets the name next.
--
-- GATE       a string while the name is not simply free:
--   h ATTEMPT [TOKEN FACTS]           held, and nobody waits: the key lives until the deadline
--   w ATTEMPT [TOKEN FACTS]           held, and somebody may wait: the key outlives the deadline
--   r ATTEMPT [TOKEN FACTS]           the same, and an operator has revoked the hold
--   s USED CAPACITY                   shared; the key outlives the last deadline
--   k FREE [ATTEMPT ENDED FACTS]      nobody's until FREE (ms); who held last
--   x                                 free, but not for attempts that have ended
-- GATE:q     sorted set: request ("ATTEMPT WHAT FACTS") → place, while somebody waits
-- GATE:w     hash: attempt → when it asked last (ms), of waiters that have asked again
-- GATE:h     sorted set: request → deadline (ms) of readers and permits
-- GATE:x     list: attempts that have ended, of which a request may still arrive
--
-- WHAT is * for exclusive, or WEIGHT/CAPACITY. An attempt is "CLIENT.NUMBER".
local GRACE, WINDOW, ASK, CLOSED, QUEUE, BATCH = 5000, 2000, 1000, 60000, 60000, 16
local LEAD = 10000000
local call, sub, match, format = redis.call, string.sub, string.match, string.format

local time = call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)

-- As text, since Lua's own conversion keeps 14 digits only.
local function text(number)
  return format('%.0f', number)
end

-- The next number. It is not behind the clock, or not below the ballot that a caller proposes to
-- all nodes of a quorum.
local function draw(counter, ballot)
  local number = call('INCR', counter)
  local least = ballot and math.max(ballot, micros - LEAD) or micros
  if number < least then number = call('INCRBY', counter, text(least - number)) end
  return text(number)
end

-- For how long the gate keeps others out (ms): its state, and what it says after the state.
local function left(gate, state, rest)
  if state == 'k' then return math.max(match(rest, '^%d+') - now, 0) end
  if state ~= 'h' and state ~= 'w' and state ~= 'r' then return 0 end
  return math.max(call('PTTL', gate) + 1 - (state == 'h' and 0 or GRACE), 0)
end

local function leave(gate, request)
  call('HDEL', gate .. ':w', match(request, '^%S+'))
  return call('ZREM', gate .. ':q', request)
end

-- Ends some of the shared holds whose time is over. Returns what still holds, of what capacity.
local function used_of(gate, rest)
  local used, capacity = match(rest, '^(%d+) (%d+)')
  local over = call('ZRANGE', gate .. ':h', '-inf', '(' .. now, 'BYSCORE', 'LIMIT', 0, BATCH)
  for _, request in ipairs(over) do
    used = used - match(request, '^%S+ (%d+)')
    call('ZREM', gate .. ':h', request)
  end
  return tonumber(used), tonumber(capacity)
end

-- Writes the gate of a name that no exclusive hold has.
local function settle(gate, used, capacity, last)
  local ended = call('PTTL', gate .. ':x')
  if used > 0 then
    local latest = call('ZRANGE', gate .. ':h', -1, -1, 'WITHSCORES')[2]
    call('SET', gate, 's ' .. text(used) .. ' ' .. text(capacity), 'PX', latest - now + GRACE)
  elseif call('EXISTS', gate .. ':q') == 1 then
    -- The next client to ask serves the queue.
    call('SET', gate, 'k ' .. text(now) .. (last or ''), 'PX', math.max(GRACE, ended))
  elseif last then
    return
  elseif ended > 0 then
    call('SET', gate, 'x', 'PX', ended)
  else
    call('DEL', gate)
  end
end

-- Gives a hold. A holder that has to claim it, or that somebody may wait for, ends by a script.
local function grant(gate, request, token, life, is_own, used, capacity)
  local attempt, what, facts = match(request, '^(%S+) (%S+) ?(.*)')
  if what ~= '*' then
    local weight, limit = match(what, '^(%d+)/(%d+)')
    -- What outlived the gate that it was written with does not count.
    if used == 0 then call('DEL', gate .. ':h') end
    call('ZADD', gate .. ':h', text(now + life), request)
    call('PEXPIRE', gate .. ':h', life + GRACE, 'NX')
    call('PEXPIRE', gate .. ':h', life + GRACE, 'GT')
    return used + weight, tonumber(limit)
  end
  local state = 'w'
  if is_own and call('EXISTS', gate .. ':q', gate .. ':x') == 0 then state = 'h' end
  local value = state .. ' ' .. attempt .. ' ' .. token .. (facts ~= '' and ' ' .. facts or '')
  call('SET', gate, value, 'PX', life + (state == 'w' and GRACE or 0))
end

local function fits(what, used, capacity)
  if used == 0 then return true end
  local weight, limit = match(what, '^(%d+)/(%d+)')
  return weight and tonumber(limit) == capacity and used + weight <= capacity
end

-- Grants the name to the first waiters. `own` is the request of the caller, if it takes: it gets
-- `ttl`, and the others have to claim their grants. Returns the caller's token.
--
-- A waiter that has not asked for too long is passed over: it joins again when it goes on.
local function serve(gate, counter, prefix, used, capacity, last, own, ttl, ballot)
  local token_of_own
  for _ = 1, BATCH do
    local first = call('ZRANGE', gate .. ':q', 0, 0, 'WITHSCORES')
    local request, is_own = first[1], first[1] == own
    if not request then break end
    local attempt, what = match(request, '^(%S+) (%S+)')
    local asked = call('HGET', gate .. ':w', attempt) or math.floor(first[2] / 1000)
    if not is_own and asked + ASK + WINDOW < now then
      leave(gate, request)
    elseif not fits(what, used, capacity) then
      break
    else
      leave(gate, request)
      local token = draw(counter, is_own and ballot)
      local life = is_own and ttl or WINDOW
      used, capacity = grant(gate, request, token, life, is_own, used, capacity)
      if is_own then
        token_of_own = token
      else
        local client = match(attempt, '^[^.]+')
        local message = 'G ' .. attempt .. ' ' .. token .. ' ' .. text(now)
        redis.pcall('PUBLISH', prefix .. client, message)
      end
      if not used then return token_of_own end
      last = nil
    end
  end
  settle(gate, used, capacity, last)
  return token_of_own
end

-- Remembers that an attempt has ended. A quick release of another would leave nothing behind.
local function close(gate, attempt)
  local ended, value = gate .. ':x', call('GET', gate)
  if not call('LPOS', ended, attempt) then
    call('RPUSH', ended, attempt)
    call('LTRIM', ended, -64, -1)
  end
  call('PEXPIRE', ended, CLOSED)
  local state = value and sub(value, 1, 1) or 'x'
  if state == 'x' then
    call('SET', gate, 'x', 'PX', CLOSED)
  elseif state == 'h' then
    call('SET', gate, 'w' .. sub(value, 2), 'PX', call('PTTL', gate) + GRACE)
  elseif state == 'k' then
    call('PEXPIRE', gate, CLOSED, 'GT')
  end
end
