-- Ends holds of different locks, and hands each lock on in the same step (model/release.rs). No
-- name depends on another.
--
-- KEYS  1 … n the locks' records, all different
-- ARGV  1 the prefix of the names of all inboxes
--       2 … n + 1 packed, for each key: retention (µs), attempt (24 bytes), cooldown (µs, or 0),
--         unanswered (1)
-- reply for one key, or a list for several: an error, or packed: now (µs), more (1), one of
--       'F' released   'N' not held: last token (µs, or 0)
--       'R' refused: 'V' version: found (4)   'X' the record is damaged
-- Numbers are little-endian doubles, or integers with the number of bytes in parentheses.
--@include clock

local call, pack, read, sub = redis.call, struct.pack, struct.unpack, string.sub
local released = pack('<dBc1', now, 0, 'F')
local replies, states, missed = {}, {}, 0
local key, asked, retention, id, cooldown, unanswered
for at = 1, #KEYS do
--@include native/release_request
  if not (retention >= 0 and retention <= 1e15 and cooldown >= 0 and cooldown <= 1e15) then
    return redis.error_reply('ARGUMENT ' .. at + 1 .. ' has a number out of range')
  end
  local state, reply = redis.pcall('HGET', key, 's'), nil
  if type(state) == 'table' then
    reply = state -- the key is of another type
  else
--@include fast/release
  end
  replies[at], states[at] = reply, state
  if not reply then missed = missed + 1 end
end
--@include native/replied

--@include publish
--@include fast/waiters
--@include fast/hand_on
--@include native/replied
--@include native/record
--@include native/hold
--@include native/queue
--@include native/grant

-- Turns the hold into a cooldown: the name stays taken, without a holder.
local function keep_hold(hold, index)
  local deadline = now + cooldown
  hold.state, hold.ttl, hold.deadline = COOLDOWN, cooldown, deadline
  record.longest_ttl = math.max(record.longest_ttl, cooldown)
  holds.expect(index, deadline)
  holds.keep_until(deadline)
end

local function release()
  step.sweep()
  local index = holds.live_hold(id)
  if not index then
    if unanswered == 1 then holds.leave_tombstone(id) end
    step.promote(nil)
    return holds.not_held()
  end
  local hold = holds.hold_at(index)
  if hold.state == COOLDOWN then return 'F' end
  -- The job of a hold that an operator has revoked did not come to its end.
  if hold.state ~= REVOKED then
    record.changed.l, record.last_facts = struct.pack(LAST, now, id), hold.facts
  end
  if cooldown == 0 then
    holds.remove_hold(index)
  else
    keep_hold(hold, index)
  end
  if unanswered == 1 then holds.leave_tombstone(id) end
  holds.keep_until(now)
  step.promote(nil)
  return 'F'
end

for at = 1, #KEYS do
  if not replies[at] then
--@include native/release_request
    replies[at] = store.run_apart(key, states[at], release)
  end
end
store.tell()
if #KEYS == 1 then return replies[1] end
return replies
