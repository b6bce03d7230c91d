-- A plain lock: a string key whose value only its holder knows, as in the Redis documentation. A
-- value of ours is `leasehold-1 ID TOKEN STATE FACTS`, where TOKEN is the time of the grant (µs)
-- and STATE is held, cooldown or revoked. Any other value was written by another program. Only the
-- value shows who holds, so a key is changed only after it was read.

-- The value, cut to the largest size of a value of ours, because the key may have a large foreign
-- value.
local function value_of(key, call)
  return call('GETRANGE', key, 0, PLAIN_BYTES - 1)
end

-- The token, the state and the facts in a value that begins with `mine`, the beginning of the
-- attempt's values. Nothing for any other value.
local function parts_of(value, mine)
  if string.sub(value, 1, #mine) ~= mine then return end
  return string.match(value, '^(%d+) (%a+) (.*)$', #mine + 1)
end

-- How often a lease was passed on inside its process, read from its facts.
local function passes_of(facts)
  return tonumber(string.match(facts, '^%d+/(%d+)/') or 0)
end

-- The end of a lease with this ttl from now on. Servers count in milliseconds, so the end is
-- rounded up.
local function end_of(ttl)
  return math.ceil((now + ttl) / 1000)
end

local function granted(token, until_ms)
  return struct.pack('<c1ddB', 'G', token, until_ms * 1000, 0)
end

-- Moves the end of a hold forward, never back. The end is written even if it stays: the client
-- waits for replicas to acknowledge this write, and a script without a write would count as
-- acknowledged immediately.
local function extend(key, token, ttl)
  local at = math.max(end_of(ttl), redis.call('PEXPIRETIME', key))
  redis.call('PEXPIREAT', key, string.format('%.0f', at))
  return granted(token, at)
end

-- The reply if this attempt does not hold. It has the token of the holder, if leasehold wrote the
-- value.
local function not_held(value)
  local token = string.match(value, '^leasehold%-1 %x+%-%d+ (%d+) ')
  return struct.pack('<c1d', 'N', tonumber(token or 0))
end

local function answer(reply)
  return struct.pack('<dB', now, 0) .. reply
end
