-- A plain lock: a string key whose value only its holder knows, as in the Redis documentation. A
-- value of ours is `leasehold-1 ID TOKEN STATE FACTS`, where TOKEN is the time of the grant (µs)
-- and STATE is held, cooldown or revoked. Whatever else stands there was written by another
-- program. Nothing but the value tells who holds, so a key is only changed after it was read.

-- The value, as far as it could be one of ours: the key of a name may be somebody's large file.
local function value_of(key, call)
  return call('GETRANGE', key, 0, PLAIN_BYTES - 1)
end

-- The token, the state and the facts in a value of the attempt that `mine` begins the values of;
-- nothing if it is anybody else's.
local function parts_of(value, mine)
  if string.sub(value, 1, #mine) ~= mine then return end
  return string.match(value, '^(%d+) (%a+) (.*)$', #mine + 1)
end

-- How often a lease was passed on inside its process, by what its holder says.
local function passes_of(facts)
  return tonumber(string.match(facts, '^%d+/(%d+)/') or 0)
end

-- When a lease that lasts so long from now on ends. Servers count in milliseconds: the later one.
local function end_of(ttl)
  return math.ceil((now + ttl) / 1000)
end

local function granted(token, until_ms)
  return struct.pack('<c1ddB', 'G', token, until_ms * 1000, 0)
end

-- Moves the end of a hold on, never back. Written even if it stays: replicas are waited for until
-- they have what was written, and a script that writes nothing is acknowledged at once.
local function extend(key, token, ttl)
  local at = math.max(end_of(ttl), redis.call('PEXPIRETIME', key))
  redis.call('PEXPIREAT', key, string.format('%.0f', at))
  return granted(token, at)
end

-- This attempt does not hold. The token of who does, if that is one of ours.
local function not_held(value)
  local token = string.match(value, '^leasehold%-1 %x+%-%d+ (%d+) ')
  return struct.pack('<c1d', 'N', tonumber(token or 0))
end

local function answer(reply)
  return struct.pack('<dB', now, 0) .. reply
end
