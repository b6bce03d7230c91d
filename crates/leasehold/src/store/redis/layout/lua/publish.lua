-- Call this last. It uses pcall because the step has been written, and a server that denies PUBLISH
-- must not make the step fail. Waiters then learn of the step by asking.
local function publish(id, payload)
  redis.pcall('PUBLISH', ARGV[1] .. string.format(HEX, struct.unpack('>I4I4I4I4', id)), payload)
end
