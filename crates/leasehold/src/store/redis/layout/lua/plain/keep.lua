-- Moves the ends of plain locks forward, and says who holds them: compare and expire.
--
-- KEYS  each the key of a lock
-- ARGV  3 for each of them: the beginning of the attempt's values; ttl (ms); what it should say
--       (`TOKEN held FACTS`), or ''
-- reply as of keep.lua, a letter for each
--@include clock
--@include plain/value

local function keep(key, mine, ttl, said)
  local value = redis.pcall('GETRANGE', key, 0, PLAIN_BYTES - 1)
  if type(value) ~= 'string' then return 'x' end -- the other keys are still renewed
  local token, state, facts = parts_of(value, mine)
  if state ~= 'held' then return state == 'revoked' and 'r' or '-' end
  local described, told = string.match(said, '^(%d+) held (.*)$')
  if told then
    -- A late request that was sent before the lease was passed on changes no facts.
    if passes_of(told) < passes_of(facts) then told = facts end
    if tonumber(described) > tonumber(token) then token = described end
    redis.call('SET', key, mine .. token .. ' held ' .. told, 'KEEPTTL')
  end
  extend(key, ttl)
  return 'h'
end

local replies = {}
for at, key in ipairs(KEYS) do
  replies[at] = keep(key, ARGV[3 * at - 2], tonumber(ARGV[3 * at - 1]), ARGV[3 * at])
end
return table.concat(replies)
