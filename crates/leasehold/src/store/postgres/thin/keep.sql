-- Renews leases that nobody awaits. Parameters, parallel arrays in the order of the names: the
-- name; the beginning of the hold; the ttl in milliseconds. Returns the indices of the renewed ones.
UPDATE leasehold.lease AS l
SET free_from_us = greatest(l.free_from_us, (c.now_us / 1000 + k.ttl_ms + 1) * 1000)
FROM (SELECT (date_part('epoch', clock_timestamp()) * 1000000)::bigint AS now_us OFFSET 0) AS c,
  unnest($1, $2, $3) WITH ORDINALITY AS k (name, attempt, ttl_ms, at)
WHERE l.name = k.name COLLATE "C"
  AND l.epoch = (SELECT max(n.epoch) FROM leasehold.lease AS n WHERE n.name = k.name COLLATE "C")
  AND starts_with(l.hold, k.attempt) AND l.record IS NULL AND l.free_from_us > c.now_us
RETURNING c.now_us, k.at, set_config('synchronous_commit', 'on', true)
