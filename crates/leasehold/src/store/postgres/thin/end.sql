-- Releases a name that nobody awaits. Parameters: the name; the attempt and a space.
--
-- Like a grant, it locks the key of the row: so a `fence` with an older snapshot notices the end.
-- The commit need not wait for the disk: without it, others wait for the end of the lease.
UPDATE leasehold.lease AS l
SET free_from_us = c.now_us, fence = NULL, hold = NULL
FROM (SELECT (date_part('epoch', clock_timestamp()) * 1000000)::bigint AS now_us OFFSET 0) AS c
WHERE l.ctid = (
    SELECT n.ctid FROM leasehold.lease AS n
    WHERE n.name = $1 AND starts_with(substr(n.hold, 3), $2)
      AND n.record IS NULL AND n.queue IS NULL
    ORDER BY n.epoch DESC LIMIT 1 FOR UPDATE SKIP LOCKED
  )
  AND l.used_until_us > c.now_us
RETURNING c.now_us, set_config('synchronous_commit', 'off', true)
