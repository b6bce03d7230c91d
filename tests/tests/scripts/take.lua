#!lua
-- Takes a name, or joins its queue, or keeps a place in it.
--
-- KEYS  1 the gate   2 the counter
-- ARGV  1 the request   2 ttl (ms)   3 its place, 0 for a new one, - if it does not wait
--       4 prefix of inboxes   5 b TOKEN: a ballot; f ATTEMPT TOKEN: takes that lease over
-- reply G TOKEN: granted · Q PLACE AHEAD MS: waits, asks again · B MS: busy · C: has ended
--       R: revoked · N: not held · V: the ballot is too far ahead of the clock
--       M CAPACITY: in use as another kind of lock · F: the queue is full
--@include gate
local gate, counter, request, ttl, place = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local prefix, queue, more = ARGV[4], KEYS[1] .. ':q', ARGV[5] or ''
local attempt, what = match(request, '^(%S+) (%S+)')
local from, expected = match(more, '^f (%S+) (%d+)')
local ballot = match(more, '^b (%d+)')

if call('LPOS', gate .. ':x', attempt) then
  leave(gate, request)
  return 'C'
end
local value = call('GET', gate)
local state, rest = sub(value or 'x', 1, 1), sub(value or '', 3)
local holder, token = match(rest, '^(%S+) ?(%d*)')
local is_held = state == 'h' or state == 'w' or state == 'r'
local is_handed_out = is_held and holder ~= attempt and holder == from and token == expected
local left_ms = left(gate, state, rest)

-- A copy of a request that was granted gets the same grant again. A lease that was handed out is
-- taken over once.
if is_held and (holder == attempt or is_handed_out) then
  if state == 'r' then return 'R' end
  if is_handed_out or token == '' then token = draw(counter) end
  local said = match(rest, '^%S+ %d+( .*)') or ''
  local kept = state .. ' ' .. attempt .. ' ' .. token .. said
  if kept ~= value then call('SET', gate, kept, 'KEEPTTL') end
  leave(gate, request)
  if is_handed_out then
    close(gate, from)
    state = 'w'
  end
  call('PEXPIRE', gate, ttl + (state == 'h' and 0 or GRACE), 'GT')
  return 'G ' .. token
end
if state == 's' then
  local deadline = call('ZSCORE', gate .. ':h', request)
  if deadline and tonumber(deadline) >= now then
    call('ZADD', gate .. ':h', 'GT', text(now + ttl), request)
    call('PEXPIRE', gate .. ':h', ttl + GRACE, 'GT')
    call('PEXPIRE', gate, ttl + GRACE, 'GT')
    return 'G ' .. draw(counter)
  end
end
if from then return 'N' end

-- The name may be in use as another kind of lock.
local LOCK = '2147483647'
local limit = match(what, '/(%d+)') or LOCK
local in_force = is_held and LOCK or state == 's' and match(rest, ' (%d+)') or limit
local is_other_kind = (in_force == LOCK) ~= (limit == LOCK)
if is_other_kind or in_force ~= limit and place == '-' then return 'M ' .. in_force end
if ballot then
  local highest = math.max(micros, call('GET', counter) or 0)
  if tonumber(ballot) > highest + LEAD then return 'V' end
end
if place == '0' and call('ZCARD', queue) >= 100000 then return 'F' end

local used, capacity = 0, tonumber(limit)
if state == 's' then used, capacity = used_of(gate, rest) end
local last = state == 'k' and match(rest, '^%d+( .*)') or nil
if left_ms == 0 and call('EXISTS', queue) == 0 and fits(what, used, capacity) then
  token = draw(counter, ballot)
  used, capacity = grant(gate, request, token, ttl, true, used, capacity)
  if used then settle(gate, used, capacity) end
  return 'G ' .. token
end

-- The queue. A waiter whose place was lost brings it again.
local is_try, is_again = place == '-', call('ZSCORE', queue, request)
if is_again then
  place = text(is_again)
elseif is_try or place == '0' then
  place = draw(counter)
end
call('ZADD', queue, place, request)
call('PEXPIRE', queue, QUEUE)
if is_again or not is_try and ARGV[3] ~= '0' then
  call('HSET', gate .. ':w', attempt, text(now))
  call('PEXPIRE', gate .. ':w', QUEUE)
end
if left_ms == 0 then
  token = serve(gate, counter, prefix, used, capacity, last, request, ttl, ballot)
  if token then return 'G ' .. token end
  value = call('GET', gate)
  state, rest = sub(value or 'x', 1, 1), sub(value or '', 3)
  left_ms = left(gate, state, rest)
end
if state == 's' then
  local first = call('ZRANGE', gate .. ':h', 0, 0, 'WITHSCORES')[2]
  left_ms = math.max(first + 1 - now, 0)
end
if is_try then
  leave(gate, request)
  if left_ms == 0 and state == 'k' then
    settle(gate, 0, 0, match(rest, '^%d+( .*)'))
  end
  return 'B ' .. text(left_ms)
end
if state == 'h' then
  call('SET', gate, 'w' .. sub(value, 2), 'PX', call('PTTL', gate) + GRACE)
elseif state == 'k' then
  call('PEXPIRE', gate, left_ms + GRACE, 'GT')
end
return 'Q ' .. place .. ' ' .. call('ZRANK', queue, request) .. ' ' .. text(math.min(left_ms, ASK))
