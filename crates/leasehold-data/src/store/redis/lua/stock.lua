-- The record of one stock (model/stock.rs).
--
-- KEYS  1 the level of each item `l<item>`, in decimal; tokens `f<lock>`
--       2 the orders that are remembered, by id
--       3 when each order returns or is forgotten: a sorted set, µs
--
-- An order is: its state (one letter); how long it is remembered and until when its state lasts
-- (doubles); its note (length in 2 bytes); its lines: item (length in 2 bytes), quantity (double).

local DEDUCTED, RESERVED, RESTOCKED, RETURNED = 'D', 'R', 'S', 'B'

local function load_order(id)
  local raw = redis.call('HGET', KEYS[2], id)
  if not raw then return end
  if #raw < 19 then error(redis.error_reply('CORRUPT an order of this stock is damaged')) end
  local order, at = {}, nil
  order.state, order.remember, order.until_us, order.note, at = struct.unpack('<c1ddI2c0', raw)
  order.lines = string.sub(raw, at)
  return order
end

local function save_order(id, order)
  redis.call('HSET', KEYS[2], id, struct.pack('<c1ddI2c0', order.state, order.remember,
    order.until_us, #order.note, order.note) .. order.lines)
  redis.call('ZADD', KEYS[3], whole(order.until_us), id)
end

local function settled(order, again)
  return { now, 'settled', order.state, order.note, order.until_us - now, again }
end

local function level_of(item)
  return tonumber(redis.call('HGET', KEYS[1], 'l' .. item) or '0')
end

local function set_level(item, level)
  redis.call('HSET', KEYS[1], 'l' .. item, whole(level))
end

local function put_back(lines)
  local at = 1
  while at <= #lines do
    local item, quantity, after = struct.unpack('<I2c0d', lines, at)
    set_level(item, math.min(level_of(item) + quantity, TIME_MAX))
    at = after
  end
end

-- Ends an order whose time is over: a reservation returns, any other order is forgotten.
local function collect(id, order)
  if order.state == RESERVED then
    put_back(order.lines)
    order.state, order.until_us = RETURNED, order.until_us + order.remember
    save_order(id, order)
    return order
  end
  redis.call('HDEL', KEYS[2], id)
  redis.call('ZREM', KEYS[3], id)
end

-- Brings an order up to date, and returns it. Also ends other orders whose time is over.
local function find_order(id)
  local order = id and load_order(id)
  while order and order.until_us <= now do order = collect(id, order) end
  local due = redis.call('ZRANGE', KEYS[3], '-inf', whole(now), 'BYSCORE', 'LIMIT', 0,
    COLLECT_BOUND)
  for _, other in ipairs(due) do
    collect(other, load_order(other) or error(redis.error_reply('CORRUPT an order is missing')))
  end
  return order or nil
end

-- The reply instead of levels that more orders are due to raise.
local function late()
  local due = redis.call('ZRANGE', KEYS[3], '-inf', whole(now), 'BYSCORE', 'LIMIT', 0, 1)
  return due[1] and { now, 'due' }
end
