#!lua
-- Takes the lock, or joins its queue, or says that it is busy (model/acquire.rs).
--
-- KEYS  1 the lock's record
-- ARGV  1 what all inboxes' names begin with   2 retention, µs
--       3 attempt, 24 bytes   4 weight   5 capacity   6 ttl, µs   7 wait, 0 or 1
--       8 nonce, 8 bytes   9 not after, µs   10 facts, opaque
-- reply now, more, and one of
--       'granted', token µs, deadline µs, contended   'queued', sequence, ahead, retry after µs
--       'busy', retry after µs   'late'   'stale'
--       'refused', 'mismatch', capacity | 'queue_full' | 'version', found | 'weight'
--@include clock
--@include arguments

local id, nonce, facts = bytes(3, 24), bytes(8, 8), ARGV[10]
local weight, capacity = number(4, COUNT_MAX), number(5, COUNT_MAX)
local ttl, wait = number(6, SPAN_MAX), ARGV[7] == '1'
if now > number(9, TIME_MAX) then return { now, 0, 'late' } end
local values = redis.call('HMGET', KEYS[1], 's', 'q', 't')

-- The most frequent case, before Lua has to build the functions of the general one, and with the
-- same result: nobody holds or awaits the name, and no attempt that has ended is remembered.
local function fast_path(state)
  local last_token, collect_at = 0, 0
  if state then
    local version, _
    version, _, last_token, collect_at = struct.unpack('<BI4dd', state)
    if version ~= 1 or not (last_token >= 0 and last_token < TIME_MAX) then return end
    if not (collect_at >= 0 and collect_at <= TIME_MAX) then return end
  elseif redis.call('HLEN', KEYS[1]) > 0 then
    return
  end
  local token, deadline = math.max(now, last_token + 1, 1577836800000001), now + ttl
  local retention = number(2, SPAN_MAX)
  local is_moved = collect_at < deadline + retention
  if is_moved then collect_at = deadline + retention + math.floor(retention / 2) end
  redis.call('HSET', KEYS[1], 's', struct.pack('<BI4ddI4I4I4dddc24c24I4Bddddc8', 1, capacity,
    token, collect_at, 1, weight, 0, deadline, TIME_MAX, ttl, string.rep('\0', 24), id, weight, 0,
    token, now, deadline, ttl, nonce) .. facts)
  if is_moved then
    redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', math.ceil(collect_at / 1000)))
  end
  return { now, 0, 'granted', token, deadline, 0 }
end

if not values[2] and not values[3] and weight <= capacity
    and (not values[1] or #values[1] == 21) then
  local reply = fast_path(values[1])
  if reply then return reply end
end
--@include record
--@include hold
--@include queue
--@include grant

local MAX_WAITING = 100000

-- A copy of an acquire that was granted: the same grant again.
local function acquire_again(index)
  local state = hold_at(index).state
  if state == KEPT or state == REVOKED then return { 'stale' } end
  local reply = confirm(index, ttl)
  promote(nil)
  return reply
end

return answer(run(KEYS[1], values, function()
  sweep()
  local index = live_hold(id)
  if index then return acquire_again(index) end
  local waiter = waiting_of(id)
  if waiter then return wait_on(waiter, ttl) end
  if is_finished(id) then return { 'stale' } end
  if weight > capacity then return { 'refused', 'weight' } end
  promote(nil)
  local idle = record.count == 0 and record.waiting == 0
  if not idle and record.capacity ~= capacity then
    return { 'refused', 'mismatch', record.capacity }
  end
  local asked = {
    id = id, weight = weight, ttl = ttl, since = now, nonce = nonce, facts = facts,
  }
  local nobody_first = record.waiting == 0 and record.upgrading == NOBODY
  if nobody_first and (idle or record.used + weight <= capacity) then
    record.capacity = capacity
    grant(asked, CLAIMED, nil)
    return confirm(record.count - 1, ttl)
  end
  if not wait then return { 'busy', time_left() } end
  if record.waiting >= MAX_WAITING then return { 'refused', 'queue_full' } end
  join(asked)
  keep_until(now)
  return place(asked)
end))
