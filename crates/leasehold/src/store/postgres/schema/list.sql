-- Lists names that begin with a prefix and come after another name, in the order of their bytes.
-- `is_used` means that somebody holds or awaits the name. It fails on a standby, which cannot read
-- `boot`.
SELECT one.now_us, found.name, found.is_used
FROM (SELECT (date_part('epoch', clock_timestamp()) * 1e6::float8)::bigint AS now_us
  OFFSET 0) AS one
LEFT JOIN LATERAL (
  SELECT l.name, one.now_us <
    CASE WHEN l.record IS NULL THEN l.free_from_us ELSE l.used_until_us END AS is_used
  FROM leasehold.lease AS l
  WHERE l.name >= $1 AND starts_with(l.name, $1) AND l.name > $2 ORDER BY l.name LIMIT $3
) AS found ON true
LEFT JOIN leasehold.boot ON boot.one
