#!lua flags=allow-oom
-- Renews, claims and describes holds, up to 100 of them.
--
-- KEYS  1 … n the gates   n + 1 the counter
-- ARGV  1 ttl (ms)   2 … n + 1 what the gate should say: "h ATTEMPT", "h ATTEMPT TOKEN FACTS", or
--       "s REQUEST" of a shared hold
-- reply for each, in one string: h kept · w kept, and somebody may wait · r revoked · - not held
local call, ttl, last, replies = redis.call, tonumber(ARGV[1]), #KEYS - 1, {}
local values = call('MGET', unpack(KEYS, 1, last))
local GRACE = 5000

local function keep_share(gate, request)
  local time = call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local deadline = call('ZSCORE', gate .. ':h', request)
  if not deadline or tonumber(deadline) < now then return '-' end
  if call('LPOS', gate .. ':x', string.match(request, '^%S+')) then return 'r' end
  call('ZADD', gate .. ':h', 'GT', string.format('%.0f', now + ttl), request)
  call('PEXPIRE', gate .. ':h', ttl + GRACE, 'GT')
  call('PEXPIRE', gate, ttl + GRACE, 'GT')
  return call('EXISTS', gate .. ':q') == 1 and 'w' or 'h'
end

for at = 1, last do
  local gate, value, said, reply = KEYS[at], values[at], ARGV[at + 1], '-'
  if value == said then
    call('PEXPIRE', gate, ttl, 'GT')
    reply = 'h'
  elseif value then
    local state, attempt = string.sub(value, 1, 1), string.match(said, '^. (%S+)')
    if state == 's' then
      reply = keep_share(gate, string.sub(said, 3))
    elseif string.match(value, '^[hwr] (%S+)') == attempt then
      if state == 'h' or call('PTTL', gate) >= GRACE then reply = state end
      if reply ~= '-' and reply ~= 'r' then
        local token = string.match(said, '^h %S+ (%d+)')
        if token then
          call('SET', gate, state .. string.sub(said, 2), 'KEEPTTL')
          if tonumber(call('GET', KEYS[last + 1]) or '0') < tonumber(token) then
            call('SET', KEYS[last + 1], token)
          end
        end
        call('PEXPIRE', gate, ttl + (state == 'h' and 0 or GRACE), 'GT')
      end
    end
  end
  replies[at] = reply
end
return table.concat(replies)
