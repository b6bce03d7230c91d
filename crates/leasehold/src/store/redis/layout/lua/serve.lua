-- Who gets a name next, and what its gate says then.

-- Writes the gate of a name that no exclusive hold has.
local function settle(gate, used, capacity)
  local ended = call('PTTL', gate .. ':x')
  if used > 0 then
    local latest = call('ZRANGE', gate .. ':h', -1, -1, 'WITHSCORES')[2]
    call('SET', gate, 's ' .. used .. ' ' .. capacity, 'PX', latest - now_ms + GRACE)
  elseif call('EXISTS', gate .. ':q') == 1 then
    -- The next client to ask serves the queue.
    call('SET', gate, 'k ' .. now_ms, 'PX', math.max(GRACE, ended))
  elseif ended > 0 then
    call('SET', gate, 'x', 'PX', ended)
  else
    call('DEL', gate)
  end
end

-- Writes a hold. Returns what is shared then, of what capacity; nothing if the hold is exclusive.
local function grant(gate, attempt, what, facts, token, life, is_own, used)
  if what == '*' then
    -- What has to be claimed, or what somebody may wait for, ends by a script. While a slot moves,
    -- each command has one key.
    local is_alone = is_own and call('EXISTS', gate .. ':q') + call('EXISTS', gate .. ':x') == 0
    local said = (is_alone and 'h ' or 'w ') .. attempt .. ' ' .. token .. facts
    call('SET', gate, said, 'PX', is_alone and life or life + GRACE)
    return
  end
  local weight, limit = match(what, '(%d+)/(%d+)')
  -- What outlived the gate that it was written with does not count. It expires now: a user without
  -- this right writes nothing that would stay for ever.
  if used == 0 then call('PEXPIRE', gate .. ':h', 0) end
  local added = call('ZADD', gate .. ':h', now_ms + life, attempt .. ' ' .. what .. facts)
  call('HSET', gate .. ':w', attempt, token)
  outlive(gate .. ':h', life + GRACE)
  outlive(gate .. ':w', life + GRACE)
  return used + weight * added, tonumber(limit)
end

local function fits(what, used, capacity)
  if used == 0 then return true end
  local weight, limit = match(what, '^(%d+)/(%d+)')
  return weight and tonumber(limit) == capacity and used + weight <= capacity
end

-- Tells a client. A server that denies PUBLISH must not make the step fail: waiters then learn of
-- it by asking.
local function tell(prefix, attempt, message)
  redis.pcall('PUBLISH', prefix .. sub(attempt, 1, 32), message)
end

-- Grants the name to the first waiters. `own` is the request of the caller, if it takes: it gets
-- `ttl`, and the others have to claim their grants. Returns the caller's token.
--
-- A waiter that has not asked for too long, or last before the clock was set back, is passed over:
-- it joins again when it goes on.
local function serve(gate, counter, prefix, used, capacity, own, ttl, ballot)
  local queue, asks, token_of_own = gate .. ':q', gate .. ':w'
  for _ = 1, shut_us > 0 and 0 or BATCH do
    -- If nobody holds, the first fits, or is passed over.
    local first = used == 0 and call('ZPOPMIN', queue)
      or call('ZRANGE', queue, '0', '0', 'WITHSCORES')
    local request, is_own = first[1], first[1] == own
    if not request then break end
    local attempt, what, facts = match(request, '^(%S+) (%S+)(.*)')
    local again = call('HGET', asks, attempt)
    local is_there = is_own or math.abs(now_ms - (again or first[2] / 1000)) <= ASK + WINDOW
    if is_there and not fits(what, used, capacity) then break end
    if used > 0 then call('ZREM', queue, request) end
    if again then call('HDEL', asks, attempt) end
    if is_there then
      local token, life = draw(counter, is_own and ballot), is_own and ttl or WINDOW
      token_of_own = is_own and token or token_of_own
      local message = 'G ' .. attempt .. ' ' .. token .. ' ' .. now_text
      if not is_own then tell(prefix, attempt, message) end
      used, capacity = grant(gate, attempt, what, facts, token, life, is_own, used)
      if not used then return token_of_own end
    end
  end
  settle(gate, used, capacity)
  return token_of_own
end
