-- Joins the queue of a name that somebody holds. Parameters: the name; the request; the attempt and
-- a space. Returns the place, how many are ahead, and for how many milliseconds the hold lasts.
--
-- The key of the row is not locked, so nobody waits for a fenced transaction. The commit need not
-- wait for the disk: a waiter that is forgotten asks again. It leaves to a general step a hold that
-- a transaction has released.
UPDATE leasehold.lease AS l
SET counter = greatest(l.counter + 1, c.now_us), hold = 'w' || substr(l.hold, 2),
  used_until_us = l.used_until_us + starts_with(l.hold, 'h')::int * (GRACE_MS * 1000),
  free_from_us = greatest(l.used_until_us + starts_with(l.hold, 'h')::int * (GRACE_MS * 1000),
    (c.now_us / 1000 + (QUEUE_MS + 1)) * 1000),
  queue = pg_catalog.array_append(l.queue, pg_catalog.concat_ws(' ', 'waits',
    greatest(l.counter + 1, c.now_us), c.now_us / 1000 + QUEUE_MS, c.now_us / 1000, $2))
FROM (SELECT (date_part('epoch', clock_timestamp()) * 1e6::float8)::bigint AS now_us OFFSET 0) AS c
WHERE l.name = $1
  AND l.epoch = (
    SELECT n.epoch FROM leasehold.lease AS n WHERE n.name = $1 ORDER BY n.epoch DESC LIMIT 1)
  AND l.record IS NULL AND l.hold NOT LIKE 's %' AND NOT starts_with(substr(l.hold, 3), $3)
  AND l.used_until_us - starts_with(l.hold, 'w')::int * (GRACE_MS * 1000) > c.now_us
  AND NOT EXISTS (SELECT FROM leasehold.released AS r WHERE r.name = $1 AND r.fence = l.fence)
  AND (l.queue IS NULL OR strpos(pg_catalog.array_to_string(l.queue, ' '), $3) = 0
    AND split_part(l.queue[pg_catalog.cardinality(l.queue)], ' ', 3)::bigint >= c.now_us / 1000)
  AND MAY_GRANT
RETURNING c.now_us, l.counter, pg_catalog.cardinality(l.queue) - 1,
  l.used_until_us / 1000 - GRACE_MS - c.now_us / 1000, set_config('synchronous_commit', 'off', true)
