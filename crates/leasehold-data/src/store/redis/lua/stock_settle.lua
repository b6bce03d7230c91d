-- Confirms or cancels an order, or returns levels (model/stock.rs). A full server refuses none of
-- these: after a refused confirmation, the pieces of a paid reservation would return to the shelf.
--
-- KEYS  see stock.lua
-- ARGV  1, 2 the fence   3 'cancel', 'confirm' or 'read'
--       4 order, or nothing   5 remembered for, µs   6… items to read
-- reply now, and one of
--       'due'   'fenced', token   'levels', level, …   'mismatch'   'unknown'
--       'settled', state, note, µs left, 1 if an earlier call had done it

local action, id, remember = ARGV[3], ARGV[4] ~= '' and ARGV[4], number(5, SPAN_MAX)
local fenced = install_fence()
if fenced then return fenced end
local order = find_order(id)

if action == 'read' then
  local reply = { now, 'levels' }
  for index = 6, #ARGV do reply[index - 3] = level_of(ARGV[index]) end
  return late() or reply
end

if not order then
  if action == 'confirm' then return { now, 'unknown' } end
  -- The deduction of this order may still arrive, and must find the order cancelled.
  order = { state = RETURNED, remember = remember, note = '', lines = '' }
  order.until_us = now + remember
  save_order(id, order)
  return settled(order, 0)
end
if order.state == RESTOCKED then return { now, 'mismatch' } end

if action == 'confirm' then
  if order.state ~= RESERVED then return settled(order, 1) end
  order.state = DEDUCTED
else
  if order.state == RETURNED then return settled(order, 1) end
  put_back(order.lines)
  order.state = RETURNED
end
order.until_us = now + order.remember
save_order(id, order)
return settled(order, 0)
