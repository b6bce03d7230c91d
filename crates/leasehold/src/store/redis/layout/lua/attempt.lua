-- Waits and attempts that end.

local function leave(gate, request)
  local waited = call('ZREM', gate .. ':q', request)
  if waited == 1 then call('HDEL', gate .. ':w', match(request, '^%S+')) end
  return waited
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
