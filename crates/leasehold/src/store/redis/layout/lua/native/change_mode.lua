-- Makes a reader the writer once it is alone. Makes a writer, or an upgradable reader, a plain
-- reader immediately. The holder numbers its changes, and they apply in that order
-- (model/change_mode.rs).
--
-- KEYS  1 the lock's record
-- ARGV  1 the prefix of the names of all inboxes
--       2 packed: retention (µs), attempt (24 bytes), number of the change,
--         'E' exclusive | 'P' permits | 'S' shared | 'U' upgradable
-- reply packed: now (µs), more (1), and one of
--       'G' granted: token (µs), deadline (µs), contended (1)   'B' busy: retry after (µs)
--       'D' would deadlock   'N' not held: last token (µs, or 0)   'S' stale
--       'R' refused: 'M' mismatch: capacity (4) | 'V' version: found (4) | 'W' weight
--       'X' the record is damaged
-- Numbers are little-endian doubles, or integers with the number of bytes in parentheses.
--@include clock

if not ARGV[2] or #ARGV[2] ~= 41 then return redis.error_reply('ARGUMENT 2 has a wrong length') end
local retention, id, change, mode = struct.unpack('<dc24dc1', ARGV[2])
if not (retention >= 0 and retention <= 1e15 and change >= 0 and change <= NEVER) then
  return redis.error_reply('ARGUMENT 2 has a number out of range')
end
--@include publish
--@include native/record
--@include native/hold
--@include native/queue
--@include native/grant

local function upgrade(hold)
  local is_writer = hold.weight == LOCK_CAPACITY
  if record.upgrading == NOBODY and not is_writer and change == hold.change then
    return 'S' -- the change was taken back
  end
  if record.upgrading ~= NOBODY and record.upgrading ~= id then return 'D' end
  -- A plain reader must not wait while there is an upgradable reader. The two would wait for each
  -- other as soon as the upgradable reader wants to write.
  if hold.weight < UPGRADABLE_WEIGHT and record.used >= UPGRADABLE_WEIGHT then return 'D' end
  hold.change = change
  if is_writer then return holds.granted(hold) end
  if record.count > 1 then
    -- From now on no reader is admitted: a stream of readers would starve the upgrade.
    record.upgrading = id
    return struct.pack('<c1d', 'B', math.min(holds.time_left(), POLL_INTERVAL))
  end
  step.become_writer(hold)
  holds.keep_until(now)
  return holds.granted(hold)
end

local function downgrade(hold, weight)
  if weight > hold.weight then return 'RW' end
  step.become_reader(hold, weight, change)
  holds.keep_until(now)
  step.promote(nil)
  return holds.granted(hold)
end

return store.answer(store.run(KEYS[1], nil, function()
  step.sweep()
  local index = holds.live_hold(id)
  local hold = index and holds.hold_at(index)
  if not hold or (hold.state ~= CLAIMED and hold.state ~= UNCLAIMED) then
    step.promote(nil)
    return holds.not_held()
  end
  if record.capacity ~= LOCK_CAPACITY then
    return struct.pack('<c1c1I4', 'R', 'M', record.capacity)
  end
  if change < hold.change then return 'S' end
  if mode == 'E' then return upgrade(hold) end
  if mode == 'S' then return downgrade(hold, 1) end
  if mode == 'U' then return downgrade(hold, UPGRADABLE_WEIGHT) end
  return 'RW'
end))
