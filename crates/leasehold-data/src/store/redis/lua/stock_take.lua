-- Takes all pieces of an order or none, or adds those of a delivery (model/stock.rs).
--
-- KEYS  see stock.lua
-- ARGV  1, 2 the fence   3 'restock' or 'take'   4 order   5 note   6 remembered for, µs
--       7 reserved for, µs, 0 for good   8… item, quantity, item, quantity, …
-- reply now, and one of
--       'due'   'fenced', token   'mismatch'   'overflow'   'short', item, available
--       'settled', state, note, µs left, 1 if an earlier call had done it

local id, remember, reserve = ARGV[4], number(6, SPAN_MAX), number(7, SPAN_MAX)
local is_delivery, packed = ARGV[3] == 'restock', {}
for index = 8, #ARGV, 2 do
  packed[#packed + 1] = struct.pack('<I2c0d', #ARGV[index], ARGV[index],
    number(index + 1, 1000000000))
end
local lines = table.concat(packed)

local fenced = install_fence()
if fenced then return fenced end

local found = find_order(id)
if found then
  local is_same = found.lines == lines and (found.state == RESTOCKED) == is_delivery
  -- A cancellation that came before its order has left no lines.
  local is_cancelled = not is_delivery and found.lines == ''
  if is_same or is_cancelled then return settled(found, 1) end
  return { now, 'mismatch' }
end

local levels = {}
for index = 8, #ARGV, 2 do
  local level, quantity = level_of(ARGV[index]), tonumber(ARGV[index + 1])
  if is_delivery and level + quantity > TIME_MAX then return { now, 'overflow' } end
  if not is_delivery and level < quantity then
    return late() or { now, 'short', ARGV[index], level }
  end
  levels[index] = is_delivery and level + quantity or level - quantity
end
for index = 8, #ARGV, 2 do set_level(ARGV[index], levels[index]) end

local order = { state = DEDUCTED, remember = remember, until_us = now + remember, note = ARGV[5],
  lines = lines }
if is_delivery then
  order.state = RESTOCKED
elseif reserve > 0 then
  order.state, order.until_us = RESERVED, now + reserve
end
save_order(id, order)
return settled(order, 0)
