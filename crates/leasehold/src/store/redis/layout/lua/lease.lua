-- What take and keep ask of a lease, and of its token.

-- For how long the gate keeps others out (ms), by what `read` has returned.
local function left(gate, state, holder, free)
  if state == 'k' then return math.max(free - now_ms, 0) end
  if not holder then return 0 end
  return math.max(call('PTTL', gate) + 1 - (state == 'h' and 0 or GRACE), 0)
end

-- The counter is not behind a token.
local function raise(counter, token)
  if tonumber(call('GET', counter) or '0') < tonumber(token) then call('SET', counter, token) end
end

-- Whether a token, if there is one, would spoil all later tokens.
local function is_too_far_ahead(counter, token)
  return token and tonumber(token) > math.max(now, call('GET', counter) or 0) + BALLOT_LEAD
end
