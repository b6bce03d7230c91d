#!lua flags=allow-oom
-- A reader becomes the writer once it is alone, a writer becomes a reader at once
-- (model/change_mode.rs).
--
-- KEYS  1 the lock's record
-- ARGV  1 what all inboxes' names begin with   2 retention, µs
--       3 attempt, 24 bytes   4 'exclusive', 'permits' or 'shared'
-- reply now, more, and one of
--       'granted', token µs, deadline µs, contended   'busy', retry after µs   'would_deadlock'
--       'not_held', last token µs or 0   'refused', 'mismatch', capacity | 'version', found | 'weight'
--@include clock
--@include arguments
--@include record
--@include hold
--@include queue
--@include grant

local id, mode = bytes(3, 24), ARGV[4]

local function upgrade(hold)
  if hold.weight == LOCK_CAPACITY then return granted(hold) end
  if record.upgrading ~= NOBODY and record.upgrading ~= id then return { 'would_deadlock' } end
  if record.count > 1 then
    -- From now on nobody is admitted, or a stream of readers would starve it.
    record.upgrading = id
    return { 'busy', math.min(time_left(), POLL_INTERVAL) }
  end
  become_writer(hold)
  keep_until(now)
  return granted(hold)
end

local function downgrade(hold)
  if record.upgrading == id then record.upgrading = NOBODY end
  record.used = record.used - hold.weight + 1
  hold.weight = 1
  keep_until(now)
  promote(nil)
  return granted(hold)
end

return answer(run(KEYS[1], nil, function()
  sweep()
  local index = live_hold(id)
  local hold = index and hold_at(index)
  if not hold or (hold.state ~= CLAIMED and hold.state ~= UNCLAIMED) then
    promote(nil)
    return not_held()
  end
  if record.capacity ~= LOCK_CAPACITY then return { 'refused', 'mismatch', record.capacity } end
  if mode == 'exclusive' then return upgrade(hold) end
  if mode == 'shared' then return downgrade(hold) end
  return { 'refused', 'weight' }
end))
