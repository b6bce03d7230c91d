-- The counter of tokens and places.

-- The next number. It is not behind the clock, or not below the ballot that a caller proposes to
-- all nodes of a quorum.
local function draw(counter, ballot)
  local number = call('INCR', counter)
  local least = ballot and math.max(ballot, now - BALLOT_LEAD) or now
  if number < least then number = call('INCRBY', counter, least - number) end
  return number == now and now_text or text(number)
end
