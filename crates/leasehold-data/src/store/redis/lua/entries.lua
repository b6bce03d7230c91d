-- The record of one queue (model/queue.rs).
--
-- KEYS  1 the place of each waiting entry `p<id>`, an id of the stream; tokens `f<lock>`
--       2 the waiting entries, a stream: `i` id, `p` payload
--       3 the entries that are done, by id: until when each is kept (double), its result
--       4 the same times as a sorted set, µs

local function forget_old()
  local due = redis.call('ZRANGE', KEYS[4], '-inf', whole(now), 'BYSCORE', 'LIMIT', 0,
    COLLECT_BOUND)
  if #due == 0 then return end
  redis.call('HDEL', KEYS[3], unpack(due))
  redis.call('ZREM', KEYS[4], unpack(due))
end

-- The state of an entry, as a reply.
local function known(id)
  if redis.call('HEXISTS', KEYS[1], 'p' .. id) == 1 then return { now, 'pending' } end
  local result = redis.call('HGET', KEYS[3], id)
  if result and struct.unpack('<d', result) > now then
    return { now, 'done', string.sub(result, 9) }
  end
end
