-- What the scripts share: the keys of a name, the clock, and what a gate says.
--
-- GATE       a string while the name is not simply free:
--   h ATTEMPT [TOKEN FACTS]           held, and nobody waits: the key lives until the deadline
--   w ATTEMPT [TOKEN FACTS]           held, and somebody may wait: the key outlives the deadline
--   r ATTEMPT [TOKEN FACTS]           the same, and an operator has revoked the hold
--   s USED CAPACITY                   shared; the key outlives the last deadline
--   k FREE [REQUEST]                  nobody's until FREE (ms), by the min_hold of this request
--   x                                 free, but not for attempts that have ended
-- GATE:q     sorted set: request ("ATTEMPT WHAT FACTS") → place, while somebody waits
-- GATE:w     hash: attempt → when it asked last (ms), of waiters that have asked again; the token,
--            of shared holds
-- GATE:h     sorted set: request → deadline (ms) of readers and permits
-- GATE:x     list: attempts that have ended, of which a request may still arrive
-- GATE:d     the last run that has succeeded: BEGAN ENDED (ms) TOKEN REQUEST
--
-- WHAT is * for exclusive, or WEIGHT/CAPACITY. An attempt is "CLIENT-NUMBER". A TOKEN may have
-- +TIMES+MICROSECONDS after its digits, if the lease was passed on.
--
-- Lua builds each function that a script names, in every call. So a file is included where it is
-- needed, and not before.
--@include clock
local call, sub, match, format = redis.call, string.sub, string.match, string.format

-- As text, since Lua's own conversion keeps 14 digits only.
local function text(number)
  return format('%.0f', number)
end

local now_ms, now_text = math.floor(now / 1000), time[1] .. sub('00000' .. time[2], -6)

-- What a gate says: its state, its value, and then its holder and TOKEN; or no holder, and the
-- words of its state. The state d is a value that is not ours.
local function read(gate, value)
  value = value or redis.pcall('GET', gate)
  if not value then return 'x', value end
  if type(value) == 'table' then
    if sub(value.err, 1, 9) ~= 'WRONGTYPE' then error(value) end
    return 'd', value.err
  end
  local state, holder, token = match(value, '^([hwr]) (%x+%-%d+) ?(%d*)')
  if holder then return state, value, holder, token end
  local first, second = match(value, '^s (%d+) (%d+)$')
  -- While a slot moves, the holds may still be at the other node.
  if first and call('EXISTS', gate .. ':h') == 0 then error('a non local key in a cluster node') end
  if not first then first, second = match(value, '^k (%d+) ?(.*)') end
  if first or value == 'x' then return sub(value, 1, 1), value, nil, first, second end
  return 'd', value
end

-- A key lives for `life` (ms) at least. Its end is written even if it stays: a client waits for
-- replicas to acknowledge this write. A script without a write would count as acknowledged.
local function outlive(key, life)
  call('PEXPIRE', key, math.max(life, call('PTTL', key)))
end
