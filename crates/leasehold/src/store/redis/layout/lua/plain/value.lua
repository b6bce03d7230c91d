-- A plain lock: a string key whose value only its holder knows, as in the Redis documentation. A
-- value of ours is `leasehold-1 ID TOKEN STATE FACTS`, where TOKEN is the time of the grant (µs)
-- and STATE is held, cooldown or revoked. Any other value was written by another program. Only the
-- value shows who holds, so a key is changed only after it was read: cut to the largest size of a
-- value of ours, because the key may have a large foreign value.

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
  return string.format('%.0f', math.ceil(now / 1000) + ttl)
end

-- Moves the end of a hold forward, never back. The end is written even if it stays: the client
-- waits for replicas to acknowledge this write, and a script without a write would count as
-- acknowledged immediately.
local function extend(key, ttl)
  local at = math.max(end_of(ttl), redis.call('PEXPIRETIME', key))
  redis.call('PEXPIREAT', key, string.format('%.0f', at))
end
