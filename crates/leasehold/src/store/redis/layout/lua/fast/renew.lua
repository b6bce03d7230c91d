-- The fast path of renewals: for as long as each holder holds alone, and nobody can be granted.
local function renew_alone(index)
  local state = redis.pcall('HGET', KEYS[index], 's') -- a table if the key is of another type
  local lease = asked[index]
  return type(state) == 'string' and confirm_alone(KEYS[index], state, lease.id, lease.ttl, lease)
end

local replies = {}
for index = 1, #KEYS do
  local reply = renew_alone(index)
  if not reply then break end
  replies[index] = reply
end
if #replies == #KEYS then return struct.pack('<dB', now, 0) .. table.concat(replies) end
