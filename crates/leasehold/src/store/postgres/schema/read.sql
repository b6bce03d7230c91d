-- Reads the row of one name without its lock, for callers that only look. `released` is the newest
-- token that a transaction has released. It fails on a standby, which cannot read `boot`. So a
-- standby that lags behind never shows an old state.
SELECT (date_part('epoch', clock_timestamp()) * 1e6::float8)::bigint AS now_us, l.*,
  (SELECT max(r.fence) FROM leasehold.released AS r WHERE r.name = $1) AS released
FROM (SELECT 1) AS one
LEFT JOIN LATERAL (SELECT * FROM leasehold.lease AS n WHERE n.name = $1
  ORDER BY n.epoch DESC LIMIT 1) AS l ON true
LEFT JOIN leasehold.boot ON boot.one
