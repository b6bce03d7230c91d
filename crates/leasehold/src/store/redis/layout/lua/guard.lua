-- Runs before an acquire. A server in quarantine refuses the acquire before it stores a token: with
-- a higher token there, no holder could take its lease back.
--
-- KEYS  the last one: the boot record
-- ARGV  the last two: the run id, and the span of a quarantine (µs)
-- reply the µs that the quarantine still lasts; without a quarantine, the reply of the acquire
--@include boot
do
  local span, run = tonumber(ARGV[#ARGV]), ARGV[#ARGV - 1]
  local left = quarantine_left(KEYS[#KEYS], run, span)
  if left > 0 then return left end
end
local KEYS, ARGV = {unpack(KEYS, 1, #KEYS - 1)}, {unpack(ARGV, 1, #ARGV - 2)}
