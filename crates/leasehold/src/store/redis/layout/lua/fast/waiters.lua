-- Functions about waiters, for the fast paths.

-- Returns a packed waiter, when its client was last seen, and how many of the client's attempts
-- wait. Returns nothing if the client is silent, or if a field is damaged.
local function live_waiter(key, id)
  local fields = redis.call('HMGET', key, 'w' .. id, 'c' .. string.sub(id, 1, 16))
  local waiter, seen = fields[1], fields[2]
  if not waiter or #waiter < WAITER_BYTES or not seen or #seen ~= 12 then return end
  local last, of_client = struct.unpack('<dI4', seen)
  if last <= NEVER and last + DEAD_AFTER > now and of_client > 0 then
    return waiter, last, of_client
  end
end

-- Whether the head of the queue is alive and does not fit, so that a step grants nothing.
local function is_blocked(key, queue, used, capacity)
  if not queue or #queue ~= QUEUE_BYTES then return false end
  local waiter = live_waiter(key, string.sub(queue, 21, 44))
  return waiter and used + struct.unpack('<I4', waiter, 57) > capacity
end
