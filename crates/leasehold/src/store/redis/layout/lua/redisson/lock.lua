-- A lock of Redisson's: a hash in which each owner has a field with the number of its entries. The
-- field `mode` says read or write, and where it is missing the lock is no read/write lock. A reader
-- has for each entry a key that ends with it; the hash ends with the last of them.
--
-- A hold of ours is one owner more, with one entry. It is always that of a reader or of a writer. A
-- writer is kept out by every lock of that name and keeps all of them out, whichever kind the other
-- side has taken. Its key has `leasehold-1 ID TOKEN STATE FACTS` as its value: Redisson asks for
-- the time that such a key has left, and for nothing else.
--
-- It takes both to hold: the hash is deleted by a forced unlock, the key ends with the lease.

-- What stands before the owner in the name of a hold's key.
local function base_of(key, owner)
  return string.sub(key, 1, -1 - #(':' .. owner .. ':rwlock_timeout:1'))
end

-- The hold of an attempt, or nothing; and whether there is a trace of it.
local function find(lock, key, owner)
  local fields = redis.call('HMGET', lock, owner, owner .. ':write')
  local value = redis.call('GET', key)
  local begin, token, state, facts =
    string.match(value or '', '^(leasehold%-1 %x+%-%d+ )(%d+) (%a+) (.*)$')
  if not token or not (fields[1] or fields[2]) then
    return nil, value or fields[1] or fields[2]
  end
  return { lock = lock, key = key, owner = owner, writes = fields[2], begin = begin,
    token = token, state = state, facts = facts }
end

-- How often a lease was passed on inside its process, by what its holder says.
local function passes_of(facts)
  return tonumber(string.match(facts, '^%d+/(%d+)/') or 0)
end

local function exact(number)
  return string.format('%.0f', number)
end

-- When a lease that lasts so long from now on ends. Servers count in milliseconds: the later one.
local function end_of(ttl)
  return math.ceil((now + ttl) / 1000)
end

local function granted(token, until_ms)
  return struct.pack('<c1ddB', 'G', token, until_ms * 1000, 0)
end

-- Moves the end of a hold on, never back, and the end of the hash with it. A renewal of Redisson's
-- watchdog sets the end of the hash to its own timeout from now on, however much longer another
-- reader was promised: so no reader is promised more. Written even if nothing changes: replicas are
-- waited for until they have what was written.
local function extend(hold, ttl)
  if not hold.writes then ttl = math.min(ttl, WATCHDOG) end
  local at = math.max(end_of(ttl), redis.call('PEXPIRETIME', hold.key))
  local of_hash = math.max(at, redis.call('PEXPIRETIME', hold.lock))
  redis.call('PEXPIREAT', hold.key, exact(at))
  redis.call('PEXPIREAT', hold.lock, exact(of_hash))
  return granted(tonumber(hold.token), at)
end

-- Takes note of what has become of a hold. Its end stays.
local function write(hold)
  local value = hold.begin .. hold.token .. ' ' .. hold.state .. ' ' .. hold.facts
  redis.call('SET', hold.key, value, 'KEEPTTL')
end

-- Tells the waiters, as Redisson does: 1 wakes all threads of a JVM that wait already. 0 wakes one
-- thread, also one that is only about to wait. Redisson's own release of a writer says 1 alone, and
-- a thread that is about to wait then sleeps until the lease would have ended: 0 comes after it.
-- Last and through pcall: a server that denies it must not make it look as if nothing had been
-- written.
local function tell(publish, channels, writes)
  redis.pcall(publish, channels[1], '0')
  if writes then redis.pcall(publish, channels[2], '1') end
  redis.pcall(publish, channels[2], '0')
end

-- When the last of the entries in a hash ends (ms), or 0.
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

-- Ends a hold; true if the lock is free by that.
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

-- What is left of a hold whose key has ended, or nothing: its field, in a hash that other readers
-- have kept. Beside it the trace of the attempt would be an entry, and keep writers out.
local function rest_of(lock, key, owner)
  local fields = redis.call('HMGET', lock, owner, owner .. ':write')
  if not (fields[1] or fields[2]) then return nil end
  return { lock = lock, key = key, owner = owner, writes = fields[2] }
end

-- This attempt does not hold. The newest token of those of ours who do.
local function not_held(lock, key, owner)
  local newest, base = 0, base_of(key, owner)
  for _, field in ipairs(redis.call('HKEYS', lock)) do
    local other = string.gsub(field, ':write$', '')
    local value = redis.call('GET', base .. ':' .. other .. ':rwlock_timeout:1')
    local token = string.match(value or '', '^leasehold%-1 %x+%-%d+ (%d+) ')
    newest = math.max(newest, tonumber(token or 0))
  end
  return struct.pack('<c1d', 'N', newest)
end

-- A copy of an acquire that is still under way finds that its attempt has ended.
local function leave_tombstone(key)
  redis.call('SET', key, 'leasehold-1 ended', 'PXAT', exact(end_of(TOMBSTONE_LIFE)))
end

-- The token of a grant: the server's clock, or with fenced=on the lock's counter.
local function mint(counter, least)
  if counter then return TOKEN_EPOCH + redis.call('INCR', counter) end
  return math.max(now, least)
end

local function answer(reply)
  return struct.pack('<dB', now, 0) .. reply
end
