-- Runs before a script that may grant. A server in quarantine grants nothing new, but for leases
-- that it may have forgotten.
--
-- KEYS  the last one: the boot record
-- ARGV  the last two: the run id, and the span of a quarantine (µs)
--@include clock
--@include boot
local shut_us = quarantine_left(KEYS[#KEYS], ARGV[#ARGV - 1], tonumber(ARGV[#ARGV]))
local KEYS, ARGV = {unpack(KEYS, 1, #KEYS - 1)}, {unpack(ARGV, 1, #ARGV - 2)}
