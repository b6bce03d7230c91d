-- Reads the row of one name without its lock, for callers that only look. `is_released` says
-- whether a transaction has released the hold. It fails on a standby, which cannot read `boot`. So
-- a standby that lags behind never shows an old state.
SELECT (date_part('epoch', clock_timestamp()) * 1000000)::bigint AS now_us, l.*,
  r.name IS NOT NULL AS is_released
FROM (SELECT 1) AS one
LEFT JOIN LATERAL (SELECT * FROM leasehold.lease AS n WHERE n.name = $1
  ORDER BY n.epoch DESC LIMIT 1) AS l ON true
LEFT JOIN leasehold.released AS r ON r.name = $1 AND r.fence = l.fence
LEFT JOIN leasehold.boot ON boot.one
