-- The counter of tokens and places.

-- The next number. It is not behind the clock, or not below the ballot that a caller proposes to
-- all nodes of a quorum.
local function draw(counter, ballot)
  local number = call('INCR', counter)
  local least = ballot and math.max(ballot, now - BALLOT_LEAD) or now
  if number < least then number = call('INCRBY', counter, least - number) end
  return number == now and now_text or text(number)
end

-- The counter is not behind a token.
local function raise(counter, token)
  if tonumber(call('GET', counter) or '0') < tonumber(token) then call('SET', counter, token) end
end

-- Whether a token, if there is one, would spoil all later tokens.
local function is_too_far_ahead(counter, token)
  return token and tonumber(token) > math.max(now, call('GET', counter) or 0) + BALLOT_LEAD
end
