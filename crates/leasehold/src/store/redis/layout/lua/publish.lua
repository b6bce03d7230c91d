-- Last and through pcall: the step has been written, and a server that denies PUBLISH must not make
-- it seem as if it had not. Waiters find out by asking.
local function publish(id, payload)
  redis.pcall('PUBLISH', ARGV[1] .. string.format(HEX, struct.unpack('>I4I4I4I4', id)), payload)
end
