#!lua flags=allow-oom
-- Moves the deadlines of up to 100 holds on. Never revives, never shortens (model/renew.rs).
--
-- KEYS  1 … n the locks' records
-- ARGV  1 what all inboxes' names begin with   2 retention, µs
--       then for each key: attempt, 24 bytes; ttl, µs
-- reply now, more, 'many', and for each key one of
--       { 'granted', token µs, deadline µs, contended }   { 'not_held', last token µs or 0 }
--       { 'revoked', 1 }   { 'refused', 'version', found }   { 'corrupt' }
--@include clock
--@include arguments

local asked = {}
for index = 1, #KEYS do
  asked[index] = { id = bytes(2 * index + 1, 24), ttl = number(2 * index + 2, SPAN_MAX) }
end
--@include record
--@include hold
--@include queue
--@include grant

local function renew(id, ttl)
  sweep()
  local index = live_hold(id)
  local reply = not_held()
  if index then
    local state = hold_at(index).state
    if state == REVOKED then
      reply = { 'revoked', 1 }
    elseif state ~= KEPT then
      reply = confirm(index, ttl)
    end
  end
  promote(nil)
  return reply
end

local replies = { 'many' }
for index, lease in ipairs(asked) do
  local told = #messages
  local done, reply = pcall(run, KEYS[index], nil, function()
    return renew(lease.id, lease.ttl)
  end)
  if not done then
    -- One damaged record must not end the other leases.
    local code = string.match(reply.err or '', '^%-?(%u+)')
    if code ~= 'CORRUPT' and code ~= 'WRONGTYPE' then error(reply) end
    for last = #messages, told + 1, -1 do messages[last] = nil end
    reply = { 'corrupt' }
  end
  replies[index + 1] = reply
end
return answer(replies)
