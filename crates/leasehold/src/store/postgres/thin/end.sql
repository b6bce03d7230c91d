-- Releases a name that nobody awaits, and that nobody else reads.
--
-- Like a grant, it locks the key of the row: so a `fence` with an older snapshot notices the end.
-- The commit need not wait for the disk: without it, others wait for the end of the lease.
SET free_from_us = c.now_us, fence = NULL, hold = NULL, queue = NULL
WHERE n.record IS NULL AND n.used_until_us > c.now_us
  AND (n.queue IS NULL AND starts_with(substr(n.hold, 3), k.own) OR starts_with(n.hold, 's')
    AND n.queue[2] IS NULL AND split_part(n.queue[1], ' ', 4) || ' ' = k.own)
FOR UPDATE
RETURNING set_config('synchronous_commit', 'off', true)
