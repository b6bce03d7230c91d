-- Keeps the highest token that was seen of each lock (leasehold::fence), in the fields f<lock> of
-- KEYS[1]. Each has eight bytes, the higher half first. A token has 63 bits, more than a double, so
-- its halves are compared.
--
-- ARGV  1 the lock, or nothing without a fence   2 its token, 8 bytes

-- Installs the token. Returns a reply instead if a higher token was seen.
local function install_fence()
  if ARGV[1] == '' then return end
  local field, token = 'f' .. ARGV[1], bytes(2, 8)
  local newest = redis.call('HGET', KEYS[1], field)
  if newest == token then return end
  if newest then
    local newest_high, newest_low = struct.unpack('>I4I4', newest)
    local high, low = struct.unpack('>I4I4', token)
    if newest_high > high or (newest_high == high and newest_low > low) then
      return { now, 'fenced', newest }
    end
  end
  redis.call('HSET', KEYS[1], field, token)
end

local function whole(value)
  return string.format('%.0f', value)
end

local COLLECT_BOUND = 64 -- as in model/limits.rs
