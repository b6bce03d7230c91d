-- Takes a name, or joins its queue, or keeps a place in it.
--
-- KEYS  1 the gate   2 the counter
-- ARGV  1 the request   2 ttl (ms)   3 its place, 0 for a new one, - if it does not wait
--       4 prefix of inboxes   5 words: `f ATTEMPT` takes that lease over, `b TOKEN` is a ballot,
--       `c TOKEN` claims a lease that the server may have forgotten, `o MS` wants one run that
--       succeeds in this time
-- reply G TOKEN: granted · Q PLACE AHEAD MS CAPACITY NOW: waits, asks again (CAPACITY: another one
--       in force, or 0) · B MS: busy · C: has ended · R: revoked · N: not held · V: the ballot is
--       too far ahead of the clock · M CAPACITY: in use as another kind of lock · F: the queue is
--       full · X: the value of the gate is not ours · D MS NOW LAST: a run has succeeded, and the
--       next may begin after MS · a number: the rest of a quarantine (µs)
--@include guard
--@include gate
--@include counter
--@include lease
--@include attempt
local gate, counter, request, ttl, place = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local prefix, queue, more = ARGV[4], KEYS[1] .. ':q', ARGV[5]
local attempt, what, facts = match(request, '^(%S+) (%S+)(.*)')
local from, ballot, claim = match(more, 'f (%S+)'), match(more, 'b (%d+)'), match(more, 'c (%d+)')
local is_try, is_new = place == '-', place == '-' or place == '0'

-- In a quarantine, waiters keep the places that they have. A refusal leaves no trace: behind a new
-- waiter, no holder could take its lease back.
if shut_us > 0 and not claim and (is_new or not call('ZSCORE', queue, request)) then
  return shut_us
end
local refused = call('LPOS', gate .. ':x', attempt) and 'C'
local once = match(more, 'o (%d+)')
local done = once and call('GET', gate .. ':d')
local next_in = done and match(done, '^%d+') + once - now_ms or 0
if next_in > 0 then refused = refused or 'D ' .. next_in .. ' ' .. now_text .. ' ' .. done end
if refused then
  leave(gate, ':q', request)
  return refused
end
local state, value, holder, first, second = read(gate)
if state == 'd' then return 'X' end
local is_handed_out = holder and holder ~= attempt and holder == from
local left_ms = left(gate, state, holder, first)
local is_ballot_too_high = is_too_far_ahead(counter, ballot or claim)

-- A copy of a request that was granted gets the same grant again. A lease that was handed out is
-- taken over once.
if (is_handed_out or holder == attempt) and (left_ms > 0 or state == 'r') then
  if state == 'r' then return 'R' end
  if is_handed_out and is_ballot_too_high then return 'V' end
  if is_handed_out then
    close(gate, from, state, value)
    state, first = 'w', ''
  end
  local token = first ~= '' and first or draw(counter, ballot)
  if first == '' then
    call('SET', gate, state .. ' ' .. attempt .. ' ' .. token .. facts, 'KEEPTTL')
  end
  leave(gate, ':q', request)
  outlive(gate, ttl + (state == 'h' and 0 or GRACE))
  return 'G ' .. token
end
if state == 's' then
  --@include share
  local deadline = call('ZSCORE', gate .. ':h', request)
  if deadline and tonumber(deadline) >= now_ms then
    extend_share(gate, request, ttl)
    return 'G ' .. (call('HGET', gate .. ':w', attempt) or draw(counter))
  end
  local share, until_ms = share_of(gate, from)
  if share and until_ms >= now_ms and match(share, '^%S+ (%S+)') == what then
    if call('LPOS', gate .. ':x', from) then return 'R' end
    if is_ballot_too_high then return 'V' end
    local token = draw(counter, ballot)
    leave(gate, ':q', request)
    if call('ZADD', gate .. ':h', until_ms, request) == 0 then
      -- Its own earlier hold, which is over, still counted.
      call('SET', gate, 's ' .. first - match(what, '%d+') .. ' ' .. second, 'KEEPTTL')
    end
    call('HSET', gate .. ':w', attempt, token)
    leave(gate, ':h', share) -- last, since the keys go with their last entry
    close(gate, from, state)
    extend_share(gate, request, ttl)
    return 'G ' .. token
  end
end
-- A node from which a lease was taken over says so.
if from then return call('LPOS', gate .. ':x', from) and 'C' or 'N' end

-- The name may be in use as another kind of lock.
local LOCK = 'LOCK_CAPACITY'
local limit = match(what, '/(%d+)') or LOCK
local in_force = holder and left_ms > 0 and LOCK or limit
if state == 's' and second ~= limit and call('PTTL', gate) >= GRACE then in_force = second end
if (in_force == LOCK) ~= (limit == LOCK) or in_force ~= limit and is_try then
  return 'M ' .. in_force
end
if is_ballot_too_high then return 'V' end
if place == '0' and call('ZCARD', queue) >= MAX_WAITING then return 'F' end
if claim and shut_us == 0 then return 'N' end

-- A waiter whose place was lost brings it again.
local function join()
  if is_new then place = draw(counter) end
  -- A user without this right writes nothing that would stay for ever.
  if is_new then call('PEXPIRE', queue, 'QUEUE') end
  local is_again = call('ZADD', queue, 'NX', place, request) == 0
  if is_again then place = text(call('ZSCORE', queue, request)) end
  call('PEXPIRE', queue, 'QUEUE')
  if place == now_text then
    -- Its place says when it asked, and not what an earlier queue or a share has left.
    call('HDEL', gate .. ':w', attempt)
  else
    call('HSET', gate .. ':w', attempt, now_ms)
    outlive(gate .. ':w', QUEUE)
  end
end
local is_open = left_ms == 0 and shut_us == 0
if is_open or claim then
  --@include share
  --@include serve
  local used, capacity = 0, tonumber(limit)
  if state == 's' then used, capacity = used_of(gate, first), tonumber(second) end
  if claim then
    -- Nobody else can have been granted the name since.
    leave(gate, ':q', request)
    is_open = state == 'x' or state == 's'
  end
  if is_open and call('EXISTS', queue) == 0 and fits(what, used, capacity) then
    local token = claim or draw(counter, ballot)
    if claim then raise(counter, claim) end
    used, capacity = grant(gate, attempt, what, facts, token, ttl, true, used)
    if used then settle(gate, used, capacity) end
    return 'G ' .. token
  end
  if claim then return 'N' end
  join()
  local token = serve(gate, counter, prefix, used, capacity, request, ttl, ballot)
  if token then return 'G ' .. token end
  state, value, holder, first = read(gate)
  left_ms = left(gate, state, holder, first)
  if is_try and state == 'k' then
    leave(gate, ':q', request)
    settle(gate, 0, 0)
  end
elseif not is_try then
  join()
end
if state == 's' then
  left_ms = math.max(call('ZRANGE', gate .. ':h', 0, 0, 'WITHSCORES')[2] + 1 - now_ms, 0)
end
if is_try then
  leave(gate, ':q', request)
  return 'B ' .. left_ms
end
if state == 'h' then
  call('SET', gate, 'w' .. sub(value, 2), 'PX', call('PTTL', gate) + GRACE)
elseif state == 'k' then
  outlive(gate, left_ms + GRACE)
end
local ahead, ask = call('ZRANK', queue, request), shut_us > 0 and ASK or math.min(left_ms, ASK)
local other = in_force ~= limit and in_force or '0'
return 'Q ' .. place .. ' ' .. ahead .. ' ' .. ask .. ' ' .. other .. ' ' .. now_text
