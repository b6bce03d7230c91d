-- A lock of Redisson's is a hash in which each owner has a field with the number of its entries.
-- The field `mode` says read or write; without this field, the lock is no read/write lock. A reader
-- also has a key for each entry, which expires with the entry. The hash expires with the last
-- entry.
--
-- A hold of ours is one more owner, with one entry, as a reader or as a writer. A writer excludes,
-- and is excluded by, every kind of lock with that name that Redisson has. The key of the hold has
-- the value `leasehold-1 ID TOKEN STATE FACTS`. With redisson-fenced, TOKEN is the counter of the
-- lock, and `/TIME` follows it: the time of the grant (µs). Redisson reads only the time to live of
-- such a key.
--
-- A hold exists while both its field and its key do: a forced unlock deletes the hash, and the key
-- expires with the lease.

-- The part before the owner in the name of a hold's key.
local function base_of(key, owner)
  return string.sub(key, 1, -1 - #(':' .. owner .. ':rwlock_timeout:1'))
end

-- The key of a second entry. A hold has only one, so Redisson never reads this key.
local function second(key)
  return string.sub(key, 1, -2) .. '2'
end

-- The hold of an attempt, or nothing. Also returns whether there is a trace of the attempt.
local function find(lock, key, owner)
  local fields = redis.call('HMGET', lock, owner, owner .. ':write')
  local value = redis.call('GET', key)
  local begin, token, since, state, facts =
    string.match(value or '', '^(leasehold%-1 %x+%-%d+ )(%d+)(/?%d*) (%a+) (.*)$')
  if not token or not (fields[1] or fields[2]) then
    return nil, value or fields[1] or fields[2] or redis.call('GET', second(key))
  end
  return { lock = lock, key = key, owner = owner, writes = fields[2], begin = begin,
    token = token, since = since, state = state, facts = facts }
end

-- How often a lease was passed on inside its process, read from its facts.
local function passes_of(facts)
  return tonumber(string.match(facts, '^%d+/(%d+)/') or 0)
end

local function exact(number)
  return string.format('%.0f', number)
end

-- The end of a lease with this ttl from now on. Servers count in milliseconds, so the end is
-- rounded up.
local function end_of(ttl)
  return math.ceil(now / 1000) + ttl
end

-- Moves the end of a hold forward, never back, and the end of the hash with it. Redisson's watchdog
-- sets the end of the hash to its own timeout from now on, even if another reader was promised
-- more. So no reader is promised more than that timeout. The end is written even if nothing
-- changes, because the client waits for replicas to acknowledge this write.
local function extend(hold, ttl)
  if not hold.writes then ttl = math.min(ttl, WATCHDOG) end
  local at = math.max(end_of(ttl), redis.call('PEXPIRETIME', hold.key))
  local of_hash = math.max(at, redis.call('PEXPIRETIME', hold.lock))
  redis.call('PEXPIREAT', hold.key, exact(at))
  redis.call('PEXPIREAT', hold.lock, exact(of_hash))
end

local function granted(hold, ttl)
  extend(hold, ttl)
  return 'G ' .. hold.token .. hold.since
end

-- Writes the new state of a hold. Its end stays.
local function write(hold)
  local token = hold.token .. hold.since
  local value = hold.begin .. token .. ' ' .. hold.state .. ' ' .. hold.facts
  redis.call('SET', hold.key, value, 'KEEPTTL')
end

-- Wakes the waiters with Redisson's messages. Message 1 wakes all threads of a JVM that wait
-- already. Message 0 wakes one thread, even one that is only about to wait. Redisson's own release
-- of a writer sends only 1, and a thread that is about to wait then sleeps until the lease would
-- have ended. So 0 is sent after 1. Call this last. It uses pcall, because a server that denies the
-- command must not make the step fail.
local function tell(publish, channels, writes)
  redis.pcall(publish, channels[1], '0')
  if writes then redis.pcall(publish, channels[2], '1') end
  redis.pcall(publish, channels[2], '0')
end

-- The end of the last entry in a hash (ms), or 0.
local function last_end(lock, base)
  local last, fields = 0, redis.call('HGETALL', lock)
  for index = 1, #fields, 2 do
    for entry = tonumber(fields[index + 1]) or 0, 1, -1 do
      local key = base .. ':' .. fields[index] .. ':rwlock_timeout:' .. entry
      last = math.max(last, redis.call('PEXPIRETIME', key))
    end
  end
  return last
end

-- Ends a hold. Returns true if the lock is free then.
local function drop(hold)
  redis.call('DEL', hold.key)
  if not hold.writes then
    redis.call('HDEL', hold.lock, hold.owner)
    local last = last_end(hold.lock, base_of(hold.key, hold.owner))
    if last > 0 then
      redis.call('PEXPIREAT', hold.lock, exact(last))
      return false
    end
  end
  redis.call('DEL', hold.lock)
  return true
end

-- The rest of a hold whose key has expired, or nothing. Other readers may have kept the hash, with
-- the field of this hold. If that field stayed, the tombstone under the key would count as its
-- entry, and keep writers out.
local function rest_of(lock, key, owner)
  local fields = redis.call('HMGET', lock, owner, owner .. ':write')
  if not (fields[1] or fields[2]) then return nil end
  return { lock = lock, key = key, owner = owner, writes = fields[2] }
end

-- Leaves a tombstone, by which a late copy of an acquire finds that its attempt has ended. Redisson
-- overlooks it, because no field of the hash counts it as an entry.
local function leave_tombstone(key)
  redis.call('SET', key, 'leasehold-1 ended', 'PXAT', exact(end_of(CLOSED)))
end

-- The token of a grant, and what follows it in the value. The token is the server's clock. With
-- redisson-fenced it is the lock's counter, and the time of the grant follows.
local function mint(counter, least)
  if not counter then return exact(math.max(now, least)), '' end
  return exact(redis.call('INCR', counter)), '/' .. exact(now)
end
