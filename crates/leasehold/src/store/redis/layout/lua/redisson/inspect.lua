-- Returns the holders of a lock of Redisson's; changes nothing.
--
-- KEYS  1 the lock   2 the counter of tokens, with layout=redisson-fenced
-- ARGV  1 the part before the owner in the names of the keys of holds
--       2 the most owners to return
-- reply packed: now (µs), 0 (1), and
--       'J': whether the key is there (1), whether its owners are readers (1), its end (µs, or 0
--         for none), the last token (µs, or 0), the number of owners (4), and of each its field,
--         its number of entries, the value of the key of its last entry (each with its length in
--         2), and the end of that key (µs, or 0)
--@include clock
--@include arguments
--@include redisson/lock

local lock, base, most = KEYS[1], ARGV[1], number(2, TIME_MAX)
local until_ms = redis.call('PEXPIRETIME', lock)
local last = KEYS[2] and tonumber(redis.call('GET', KEYS[2]) or 0) or 0
if last > 0 then last = TOKEN_EPOCH + last end
local owners, fields = {}, {}
local reads = redis.call('HGET', lock, 'mode') == 'read' and 1 or 0
-- The key may be a foreign hash with a million fields.
if redis.call('HLEN', lock) <= PEEK_LIMIT then fields = redis.call('HGETALL', lock) end
for index = 1, #fields, 2 do
  local field, entries = fields[index], fields[index + 1]
  if field ~= 'mode' and #owners < most then
    local owner = string.gsub(field, ':write$', '')
    local key = base .. ':' .. owner .. ':rwlock_timeout:' .. entries
    local value, ends = redis.call('GET', key) or '', redis.call('PEXPIRETIME', key)
    owners[#owners + 1] =
      struct.pack('<I2', #field) .. field .. struct.pack('<I2', #entries) .. entries ..
      struct.pack('<I2', #value) .. value .. struct.pack('<d', math.max(0, ends) * 1000)
  end
end
return answer(struct.pack('<c1BBddI4', 'J', until_ms ~= -2 and 1 or 0, reads,
  math.max(0, until_ms) * 1000, last, #owners) .. table.concat(owners))
