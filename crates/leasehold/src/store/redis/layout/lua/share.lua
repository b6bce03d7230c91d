-- The holds of readers and of permits.

-- The end of a shared hold moves, and never comes earlier.
local function extend_share(gate, request, ttl)
  call('ZADD', gate .. ':h', 'GT', now_ms + ttl, request)
  outlive(gate .. ':h', ttl + GRACE)
  outlive(gate .. ':w', ttl + GRACE)
  outlive(gate, ttl + GRACE)
end

-- The request of the shared hold of an attempt, if there is one, and its deadline.
local function share_of(gate, attempt)
  local shares = attempt and call('ZRANGE', gate .. ':h', 0, -1, 'WITHSCORES') or {}
  for at = 1, #shares, 2 do
    if match(shares[at], '^%S+') == attempt then return shares[at], tonumber(shares[at + 1]) end
  end
end

-- Ends some of the shared holds whose time is over. Returns what still holds.
local function used_of(gate, used)
  local over = call('ZRANGE', gate .. ':h', '-inf', '(' .. now_ms, 'BYSCORE', 'LIMIT', 0, BATCH)
  for _, request in ipairs(over) do
    used = used - match(request, ' (%d+)')
    leave(gate, ':h', request)
  end
  return tonumber(used)
end
