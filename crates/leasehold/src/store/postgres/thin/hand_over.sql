-- Ends a hold, hands the name over to its first waiter, and tells that one.
--
-- It leaves to a general step: a waiter that is no writer, or has not asked for too long, and a name
-- of which nothing is granted now.
-- The waiter must claim within the window. The gate outlives that by the grace.
SET epoch = l.epoch + (l.turn >= 63)::int, turn = (l.turn + 1) & 63,
  counter = greatest(l.counter + 1, c.now_us + k.at),
  fence = greatest(l.counter + 1, c.now_us + k.at),
  used_until_us = (c.now_us / 1000 + (WINDOW_MS + GRACE_MS + 1)) * 1000,
  free_from_us = greatest((c.now_us / 1000 + (WINDOW_MS + GRACE_MS + 1)) * 1000,
    CASE WHEN pg_catalog.cardinality(l.queue) > 1 THEN
      (split_part(l.queue[pg_catalog.cardinality(l.queue)], ' ', 3)::bigint + 1) * 1000 END),
  hold = pg_catalog.concat('w ', split_part(l.queue[1], ' ', 5), ' ',
    greatest(l.counter + 1, c.now_us + k.at), substr(l.queue[1], strpos(l.queue[1], '*') + 1)),
  queue = CASE WHEN pg_catalog.cardinality(l.queue) > 1 THEN l.queue[2:] END
WHERE starts_with(substr(n.hold, 3), k.own) AND n.record IS NULL AND n.used_until_us > c.now_us
  AND split_part(n.queue[1], ' ', 6) = '*'
  AND abs(split_part(n.queue[1], ' ', 4)::bigint - c.now_us / 1000) <= ASK_MS + WINDOW_MS AND MAY_GRANT
FOR UPDATE
RETURNING pg_notify('lh_' || split_part(substr(l.hold, 3), '-', 1), pg_catalog.concat_ws(' ',
    'granted', split_part(split_part(l.hold, ' ', 2), '-', 2),
    (l.fence - 1577836800000000) << 12, c.now_us)),
  set_config('synchronous_commit', 'on', true)
