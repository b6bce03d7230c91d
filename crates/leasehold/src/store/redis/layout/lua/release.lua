#!lua flags=allow-oom
-- Ends a hold and hands the lock on in the same step (model/release.rs).
--
-- KEYS  1 the lock's record
-- ARGV  1 what all inboxes' names begin with
--       2 packed: retention (µs), attempt (24 bytes), keep (µs, or 0), unanswered (1)
-- reply packed: now (µs), more (1), and one of
--       'F' released   'N' not held: last token (µs, or 0)
--       'R' refused: 'V' version: found (4)   'X' the record is damaged
-- Numbers are little-endian doubles, or integers of so many bytes.
--@include clock

if not ARGV[2] or #ARGV[2] ~= 41 then return redis.error_reply('ARGUMENT 2 has a wrong length') end
local retention, id, keep, unanswered = struct.unpack('<dc24dB', ARGV[2])
if not (retention >= 0 and retention <= 1e15 and keep >= 0 and keep <= 1e15) then
  return redis.error_reply('ARGUMENT 2 has a number out of range')
end
local state = redis.call('HGET', KEYS[1], 's')

-- The most frequent case, before Lua has to build the functions of the general one, and with the
-- same result: this attempt is the only one that holds, its time has not come, and nobody waits.
local is_awaited, capacity, asked, last_token, collect_at = false, nil, nil, nil, nil
if state and #state >= HELD_BY_ONE_BYTES and keep == 0 and unanswered == 0
    and string.sub(state, HELD_BY_ONE_AT, HELD_BY_ONE_AT + 23) == id then
  local version, flags, count, used, _, upgrading, weight, hold_state, deadline
  version, flags, capacity, asked, last_token, collect_at, count, used, _, _, _, _, upgrading, _,
    weight, hold_state, _, _, deadline = struct.unpack(HELD_BY_ONE, state)
  if hold_state ~= KEPT and deadline > now and version == VERSION and count == 1
      and last_token >= 0 and last_token < NEVER
      and collect_at >= now + retention and collect_at <= NEVER then
    if flags % 2 == 0 then
      redis.call('HSET', KEYS[1], 's', string.sub(state, 1, IDLE_BYTES))
      return struct.pack('<dBc1', now, 0, 'F')
    end
    is_awaited = flags % 2 == 1 and upgrading == NOBODY and used == weight
  end
end
--@include basics
--@include hand_on

if is_awaited then
  local reply = hand_on(state, capacity, asked, last_token, collect_at)
  if reply then return reply end
end
--@include record
--@include hold
--@include queue
--@include grant

-- The name stays taken, by nobody.
local function keep_hold(hold, index)
  local deadline = now + keep
  hold.state, hold.ttl, hold.deadline = KEPT, keep, deadline
  record.longest_ttl = math.max(record.longest_ttl, keep)
  holds.expect(index, deadline)
  if record.upgrading == id then record.upgrading = NOBODY end
  holds.keep_until(deadline)
end

return store.answer(store.run(KEYS[1], state, function()
  step.sweep()
  local index = holds.live_hold(id)
  if not index then
    if unanswered == 1 then holds.bury_attempt(id) end
    step.promote(nil)
    return holds.not_held()
  end
  local hold = holds.hold_at(index)
  if hold.state == KEPT then return 'F' end
  if keep == 0 then
    holds.remove_hold(index)
  else
    keep_hold(hold, index)
  end
  if unanswered == 1 then holds.bury_attempt(id) end
  holds.keep_until(now)
  step.promote(nil)
  return 'F'
end))
