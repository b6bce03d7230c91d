-- The fast path of renewals, as long as each holder holds alone, and no waiter can be granted.
local function renew_alone(index)
  local fields = redis.pcall('HMGET', KEYS[index], 's', 'b') -- an error for another type of key
  local state, lease = fields[1], asked[index]
  return state and confirm_alone(KEYS[index], state, fields[2], lease.id, lease.ttl)
end

local replies = {}
for index = 1, #KEYS do
  local reply = renew_alone(index)
  if not reply then break end
  replies[index] = reply
end
if #replies == #KEYS then return struct.pack('<dB', now, 0) .. table.concat(replies) end
