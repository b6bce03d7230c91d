-- Ends a hold, hands the name over to its first waiter, and tells that one. Parameters: the name;
-- the attempt of the hold and a space; whether `boot` is asked.
--
-- Like `take`, it locks the key of the row, and passes over a row that is fenced.
-- It leaves to a general step: a waiter that is no writer, or has not asked for 3 s, and a name of
-- which nothing is granted now.
-- The waiter must claim within 2 s. The gate outlives that by the grace of 5 s.
UPDATE leasehold.lease AS l
SET epoch = l.epoch + (l.turn >= 63)::int, turn = (l.turn + 1) & 63,
  counter = greatest(l.counter + 1, c.now_us), fence = greatest(l.counter + 1, c.now_us),
  used_until_us = (c.now_us / 1000 + 7001) * 1000,
  free_from_us = greatest((c.now_us / 1000 + 7001) * 1000, CASE WHEN cardinality(l.queue) > 1 THEN
    (split_part(l.queue[cardinality(l.queue)], ' ', 3)::bigint + 1) * 1000 END),
  hold = concat('w ', split_part(l.queue[1], ' ', 5), ' ', greatest(l.counter + 1, c.now_us),
    substr(l.queue[1], strpos(l.queue[1], '*') + 1)),
  queue = nullif(l.queue[2:], '{}')
FROM (SELECT (date_part('epoch', clock_timestamp()) * 1000000)::bigint AS now_us OFFSET 0) AS c
WHERE l.ctid = (
    SELECT n.ctid FROM leasehold.lease AS n
    WHERE n.name = $1 AND starts_with(substr(n.hold, 3), $2)
      AND n.record IS NULL AND n.queue IS NOT NULL
    ORDER BY n.epoch DESC LIMIT 1 FOR UPDATE SKIP LOCKED
  )
  AND l.used_until_us > c.now_us AND split_part(l.queue[1], ' ', 6) = '*'
  AND split_part(l.queue[1], ' ', 4)::bigint + 3000 >= c.now_us / 1000
  AND (NOT $3 OR c.now_us >= (
    SELECT b.grants_from_us FROM leasehold.boot AS b WHERE b.one AND b.made_in = b.tableoid))
RETURNING c.now_us, set_config('synchronous_commit', 'on', true), pg_notify(
  'lh_' || split_part(substr(l.hold, 3), '-', 1), concat_ws(' ', 'granted',
    split_part(split_part(l.hold, ' ', 2), '-', 2), (l.fence - 1577836800000000) << 12, c.now_us))
