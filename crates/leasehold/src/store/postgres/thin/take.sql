-- Takes a name that is free. Parameters: the name; the beginning of the hold; a space and the
-- facts, if there are any; the ttl in milliseconds; whether `boot` is asked.
--
-- The inner query locks the key of the row, and passes over a row that a fenced transaction shares.
-- The update keeps that lock, because both are one transaction.
-- The clock is read before the lock: so the old lease is over, and the new one ends early.
UPDATE leasehold.lease AS l
SET epoch = l.epoch + (l.turn >= 63)::int, turn = (l.turn + 1) & 63,
  counter = greatest(l.counter + 1, c.now_us), fence = greatest(l.counter + 1, c.now_us),
  free_from_us = (c.now_us / 1000 + $4 + 1) * 1000,
  used_until_us = (c.now_us / 1000 + $4 + 1) * 1000,
  hold = $2 || greatest(l.counter + 1, c.now_us) || $3, queue = NULL, record = NULL
FROM (SELECT (date_part('epoch', clock_timestamp()) * 1000000)::bigint AS now_us OFFSET 0) AS c
WHERE l.ctid = (
    SELECT n.ctid FROM leasehold.lease AS n
    WHERE n.name = $1 AND n.free_from_us <=
      (SELECT (date_part('epoch', clock_timestamp()) * 1000000)::bigint)
    ORDER BY n.epoch DESC LIMIT 1 FOR UPDATE SKIP LOCKED
  )
  AND l.free_from_us <= c.now_us
  AND (NOT $5 OR c.now_us >= (
    SELECT b.grants_from_us FROM leasehold.boot AS b WHERE b.one AND b.made_in = b.tableoid))
RETURNING c.now_us, l.counter, set_config('synchronous_commit', 'on', true)
