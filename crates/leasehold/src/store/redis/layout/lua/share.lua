-- The holds of readers and of permits.

local function weight_of(request)
  return match(request, '^%S+ (%d+)')
end

-- The end of a shared hold moves, and never comes earlier.
local function extend_share(gate, request, ttl)
  call('ZADD', gate .. ':h', 'GT', now_ms + ttl, request)
  call('PEXPIRE', gate .. ':h', ttl + GRACE, 'GT')
  call('PEXPIRE', gate .. ':w', ttl + GRACE, 'GT')
  prolong(gate, ttl + GRACE)
end

local function end_share(gate, request)
  call('HDEL', gate .. ':w', match(request, '^%S+'))
  return call('ZREM', gate .. ':h', request)
end

-- The request of a shared hold, and its deadline.
local function share_of(gate, attempt)
  local shares = call('ZRANGE', gate .. ':h', 0, -1, 'WITHSCORES')
  for at = 1, #shares, 2 do
    if match(shares[at], '^%S+') == attempt then return shares[at], tonumber(shares[at + 1]) end
  end
end

-- Ends some of the shared holds whose time is over. Returns what still holds.
local function used_of(gate, used)
  local over = call('ZRANGE', gate .. ':h', '-inf', '(' .. now_ms, 'BYSCORE', 'LIMIT', 0, BATCH)
  for _, request in ipairs(over) do
    used = used - weight_of(request)
    end_share(gate, request)
  end
  return tonumber(used)
end
