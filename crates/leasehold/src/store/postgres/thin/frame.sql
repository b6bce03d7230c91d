-- The frame of the statements on one name or several. Through a pooler, a stranger's function could
-- fit the types better than a polymorphic one of the server: those are written with `pg_catalog`.
-- Each has four parts: what it sets, in which rows, which lock it takes before, what it returns.
--
-- Parameters, parallel arrays in the order of the names: the name; the attempt and a space; the ttl
-- in milliseconds; how the attempt wants the name (a star, or its weight), and the facts behind a
-- space, if there are any. Returns the clock and the index of each name of which it has set
-- something. The cost grows with each part of a statement: so one name has values without arrays.
--
-- The inner query passes over a row that another statement has, so that it delays no other name; and
-- if it locks the key, over a row that a fenced transaction shares. The update keeps that lock,
-- because both are one transaction. It finds the row by its key: then it follows the row to the
-- version that was locked, which may be newer than the snapshot of the statement.
-- The planner expects that the condition on `k` leaves one row. So a plan for arrays of any length
-- seems no dearer than one for these.
-- The clock is read before the lock: so an old lease is over, and a new one ends early. The tokens
-- of one statement differ by the index.
UPDATE leasehold.lease AS l SET <SET>
FROM (SELECT (date_part('epoch', clock_timestamp()) * 1e6::float8)::bigint AS now_us OFFSET 0) AS c
JOIN unnest($1, $2, $3, $4) WITH ORDINALITY AS k (name, own, ms, what, at) ON k.name || '' = k.name
CROSS JOIN LATERAL (
  SELECT n.name, n.epoch FROM leasehold.lease AS n WHERE n.name = k.name COLLATE "C" AND <WHERE>
  ORDER BY n.epoch DESC LIMIT 1 FOR <FOR> SKIP LOCKED) AS n
WHERE l.name = n.name AND l.epoch = n.epoch
RETURNING c.now_us, k.at, <RETURNING>
