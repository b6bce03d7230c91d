-- The server's clock (µs). It is read once in a script, so every part of a step sees the same time.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
