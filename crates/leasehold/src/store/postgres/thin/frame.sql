-- The frame of the statements on several names. Each has four parts: what it sets, in which rows,
-- the lock that it takes before, and what it returns.
--
-- Parameters, parallel arrays in the order of the names: the name; the attempt and a space; the ttl
-- in milliseconds; how the attempt wants the name (a star, or its weight), and the facts behind a
-- space, if there are any. The last parameter says whether `boot` is asked. Returns the clock and
-- the index of each name of which it has set something.
--
-- The inner query passes over a row that another statement has, so that it delays no other name; and
-- if it locks the key, over a row that a fenced transaction shares. The update keeps that lock,
-- because both are one transaction. It finds the row by its key: then it follows the row to the
-- version that was locked, which may be newer than the snapshot of the statement.
-- The planner expects that the condition on `k` leaves one row. So it looks up each name in the
-- index, and a plan for arrays of any length seems no dearer than one for these.
-- The clock is read before the lock: so an old lease is over, and a new one ends early. The tokens
-- of one statement differ by the index.
UPDATE leasehold.lease AS l
SET <SET>
FROM (
  SELECT c.now_us, k.*, c.now_us / 1000 + k.ttl_ms AS deadline_ms, n.*,
    starts_with(k.what, '*') AS is_alone, c.now_us + k.at - 1 AS token_us
  FROM (SELECT (date_part('epoch', clock_timestamp()) * 1000000)::bigint AS now_us OFFSET 0) AS c
  CROSS JOIN unnest($1, $2, $3, $4) WITH ORDINALITY AS k (name, own, ttl_ms, what, at)
  CROSS JOIN LATERAL (
    SELECT n.name AS found, n.epoch FROM leasehold.lease AS n
    WHERE n.name = k.name COLLATE "C" AND <WHERE>
    ORDER BY n.epoch DESC LIMIT 1 FOR <FOR> SKIP LOCKED
  ) AS n
  WHERE k.name || '' = k.name
) AS k
WHERE l.name = k.found AND l.epoch = k.epoch AND (NOT $5 OR k.now_us >= (
    SELECT b.grants_from_us FROM leasehold.boot AS b WHERE b.one AND b.made_in = b.tableoid))
RETURNING k.now_us, k.at, <RETURNING>
