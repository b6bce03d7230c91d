-- Who gets a name next, and what its gate says then.

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

-- Writes an exclusive hold. One that has to be claimed, or that somebody may wait for, ends by a
-- script.
local function set_hold(gate, said, life, is_own)
  -- While a slot moves, each command has one key.
  if is_own and call('EXISTS', gate .. ':q') + call('EXISTS', gate .. ':x') == 0 then
    call('SET', gate, 'h ' .. said, 'PX', life)
  else
    call('SET', gate, 'w ' .. said, 'PX', life + GRACE)
  end
end

-- Adds a shared hold. Returns what holds then, of what capacity.
local function add_share(gate, request, token, life, used)
  local attempt, weight, limit = match(request, '^(%S+) (%d+)/(%d+)')
  -- What outlived the gate that it was written with does not count.
  if used == 0 then call('DEL', gate .. ':h') end
  call('ZADD', gate .. ':h', now_ms + life, request)
  call('HSET', gate .. ':w', attempt, token)
  outlive(gate .. ':h', life + GRACE)
  outlive(gate .. ':w', life + GRACE)
  return used + weight, tonumber(limit)
end

local function fits(what, used, capacity)
  if used == 0 then return true end
  local weight, limit = match(what, '^(%d+)/(%d+)')
  return weight and tonumber(limit) == capacity and used + weight <= capacity
end

-- Tells a client. A server that denies PUBLISH must not make the step fail: waiters then learn of
-- it by asking.
local function tell(prefix, attempt, message)
  redis.pcall('PUBLISH', prefix .. match(attempt, '^%x+'), message)
end

-- Grants the name to the first waiters. `own` is the request of the caller, if it takes: it gets
-- `ttl`, and the others have to claim their grants. Returns the caller's token.
--
-- A waiter that has not asked for too long is passed over: it joins again when it goes on.
local function serve(gate, counter, prefix, used, capacity, own, ttl, ballot)
  local queue, asks, token_of_own = gate .. ':q', gate .. ':w'
  for _ = 1, shut_us > 0 and 0 or BATCH do
    local first = call('ZRANGE', queue, '0', '0', 'WITHSCORES')
    local request, is_own = first[1], first[1] == own
    if not request then break end
    local attempt, what, facts = match(request, '^(%S+) (%S+)(.*)')
    local again = call('HGET', asks, attempt)
    local asked = again or math.floor(first[2] / 1000)
    local is_there = is_own or asked + ASK + WINDOW >= now_ms
    if is_there and not fits(what, used, capacity) then break end
    call('ZREM', queue, request)
    if again then call('HDEL', asks, attempt) end
    if is_there then
      local token = draw(counter, is_own and ballot)
      local life = is_own and ttl or WINDOW
      if is_own then
        token_of_own = token
      else
        tell(prefix, attempt, 'G ' .. attempt .. ' ' .. token .. ' ' .. now_text)
      end
      if what == '*' then
        set_hold(gate, attempt .. ' ' .. token .. facts, life, is_own)
        return token_of_own
      end
      used, capacity = add_share(gate, request, token, life, used)
    end
  end
  settle(gate, used, capacity)
  return token_of_own
end
