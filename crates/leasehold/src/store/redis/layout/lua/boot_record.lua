-- Tells whether this server may have forgotten anything. The boot record is stored with the locks,
-- and names the run of the server to which the locks belong. Another run id means a restart,
-- another server behind the same address, or a promoted replica. No record means an empty server or
-- a flush. In each of these cases the quarantine begins: for its span nothing new is granted. In a
-- cluster each slot has a record, and another run id may also mean that the slot has moved.
--
-- KEYS  1 the boot record: `run`, `followed`, `since` (µs)
-- ARGV  1 the server's run id, read on this connection (which ends with the server's process)
--       2 span of a quarantine, µs   3 'end' if an operator says that nothing was forgotten
-- reply µs that the quarantine still lasts, 0 for none
--@include clock
--@include boot

local run, span = ARGV[1], tonumber(ARGV[2])
if ARGV[3] == 'end' then
  local since = math.max(now - SPAN_MAX, 0) -- it is over already
  redis.call('HSET', KEYS[1], 'run', run, 'followed', followed, 'since', since)
  return 0
end
return quarantine_left(KEYS[1], run, span)
