-- Renews leases. Parameters, parallel arrays in the order of the names: the name; the attempt and a
-- space; the ttl in milliseconds. Returns the indices of the renewed ones, and whether somebody may
-- wait for the name.
--
-- With a `w`, the gate outlives the lease by the grace.
UPDATE leasehold.lease AS l
SET used_until_us = greatest(l.used_until_us, k.until_us + starts_with(l.hold, 'w')::int * 5000000),
  free_from_us = greatest(l.free_from_us, k.until_us + starts_with(l.hold, 'w')::int * 5000000)
FROM (
  SELECT c.now_us, k.*, (c.now_us / 1000 + k.ttl_ms + 1) * 1000 AS until_us
  FROM (SELECT (date_part('epoch', clock_timestamp()) * 1000000)::bigint AS now_us OFFSET 0) AS c,
    unnest($1, $2, $3) WITH ORDINALITY AS k (name, own, ttl_ms, at)
) AS k
WHERE l.name = k.name COLLATE "C"
  AND l.epoch = (SELECT max(n.epoch) FROM leasehold.lease AS n WHERE n.name = k.name COLLATE "C")
  AND starts_with(substr(l.hold, 3), k.own) AND l.record IS NULL
  AND l.used_until_us - starts_with(l.hold, 'w')::int * 5000000 > k.now_us
RETURNING k.now_us, k.at, starts_with(l.hold, 'w'), set_config('synchronous_commit', 'on', true)
