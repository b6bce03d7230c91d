-- Returns the holders of a lock of Redisson's; changes nothing.
--
-- KEYS  1 the lock
-- ARGV  1 the part before the owner in the names of the keys of holds
--       2 the most owners to return
-- reply the time; the end of the hash (ms: -2 if there is none, -1 if it does not end); 1 if its
--       owners are readers; of each owner its field, its number of entries, and the value and the
--       end (ms) of the key of its last entry
local lock, base, most = KEYS[1], ARGV[1], tonumber(ARGV[2])
local owners, fields = {}, {}
local reads = redis.call('HGET', lock, 'mode') == 'read' and 1 or 0
-- The key may be a foreign hash with a million fields.
if redis.call('HLEN', lock) <= PEEK_LIMIT then fields = redis.call('HGETALL', lock) end
for index = 1, #fields, 2 do
  local field, entries = fields[index], fields[index + 1]
  if field ~= 'mode' and #owners < most then
    local owner = string.gsub(field, ':write$', '')
    local key = base .. ':' .. owner .. ':rwlock_timeout:' .. entries
    owners[#owners + 1] =
      { field, entries, redis.call('GET', key) or '', redis.call('PEXPIRETIME', key) }
  end
end
return { redis.call('TIME'), redis.call('PEXPIRETIME', lock), reads, owners }
