-- Moves the deadlines of up to 100 holds forward. It never revives or shortens a hold
-- (model/renew.rs).
--
-- KEYS  1 … n the locks' records
-- ARGV  1 the prefix of the names of all inboxes
--       2 packed: retention (µs), then for each key: attempt (24 bytes), ttl (µs)
-- reply packed: now (µs), more (1), and for each key one of
--       'G' granted: token (µs), deadline (µs), contended (1)
--       'N' not held: last token (µs, or 0)   'V' revoked: 1 (1)
--       'R' refused: 'V' version: found (4)   'X' the record is damaged
-- Numbers are little-endian doubles, or integers with the number of bytes in parentheses.
--@include clock

if not ARGV[2] or #ARGV[2] ~= 8 + 32 * #KEYS then
  return redis.error_reply('ARGUMENT 2 has a wrong length')
end
local retention, asked = struct.unpack('<d', ARGV[2]), {}
local is_in_range = retention >= 0 and retention <= 1e15
for index = 1, #KEYS do
  local id, ttl = struct.unpack('<c24d', ARGV[2], 32 * index - 23)
  is_in_range = is_in_range and ttl >= 0 and ttl <= 1e15
  asked[index] = { id = id, ttl = ttl }
end
if not is_in_range then return redis.error_reply('ARGUMENT 2 has a number out of range') end
--@include publish
--@include fast/waiters
--@include fast/confirm
--@include fast/renew
--@include native/record
--@include native/hold
--@include native/queue
--@include native/grant

local function renew(lease)
  step.sweep()
  local index = holds.live_hold(lease.id)
  local reply = holds.not_held()
  if index then
    local hold = holds.hold_at(index)
    if hold.state == REVOKED then
      reply = struct.pack('<c1B', 'V', 1)
    elseif hold.state ~= COOLDOWN then
      reply = holds.confirm(index, lease.ttl)
    end
  else
    local _, is_revoked = holds.is_finished(lease.id)
    if is_revoked then reply = struct.pack('<c1B', 'V', 1) end
  end
  step.promote(nil)
  return reply
end

-- A damaged record must not end the other leases.
for index = #replies + 1, #KEYS do
  local lease = asked[index]
  replies[index] = renew_alone(index) or store.run(KEYS[index], nil, function()
    return renew(lease)
  end)
end
return store.answer(table.concat(replies))
