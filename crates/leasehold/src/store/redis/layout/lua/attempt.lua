-- Waits, shares and attempts that end.

-- Removes a request from the queue (:q) or from the shared holds (:h). Returns 1 if it was there.
local function leave(gate, set, request)
  local was_there = call('ZREM', gate .. set, request)
  if was_there == 1 then call('HDEL', gate .. ':w', match(request, '^%S+')) end
  return was_there
end

-- Remembers that an attempt has ended. A quick release of another would leave nothing behind, so
-- the gate changes, unless the caller writes it afterwards and gives no state.
local function close(gate, attempt, state, value)
  local ended = gate .. ':x'
  outlive(ended, CLOSED) -- A user without this right writes nothing that would stay for ever.
  if not call('LPOS', ended, attempt) then
    call('RPUSH', ended, attempt)
    call('LTRIM', ended, -MAX_CLOSED, -1)
  end
  outlive(ended, CLOSED)
  if state == 'h' then
    call('SET', gate, 'w' .. sub(value, 2), 'PX', call('PTTL', gate) + GRACE)
  elseif state == 'k' then
    outlive(gate, call('PTTL', ended))
  elseif state and call('PTTL', gate) < GRACE then
    -- What is left of a hold that is over would end earlier.
    call('SET', gate, 'x', 'PX', call('PTTL', ended))
  end
end
