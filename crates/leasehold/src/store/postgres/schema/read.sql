-- Reads the row of one name without its lock, for callers that only look. `is_released` says
-- whether a transaction has released the hold. It fails on a standby, which cannot read `boot`. So
-- a standby that lags behind never shows an old state.
CREATE FUNCTION leasehold.read_3(wanted text)
RETURNS TABLE (now_us bigint, hold text, free_from_us bigint, record text, is_released boolean)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
  SELECT leasehold.clock_3(), l.hold, l.free_from_us, l.record, r.name IS NOT NULL
  FROM (SELECT 1) AS one
  LEFT JOIN LATERAL (
    SELECT * FROM leasehold.lease l WHERE l.name = wanted COLLATE "C"
    ORDER BY l.epoch DESC LIMIT 1
  ) AS l ON true
  LEFT JOIN leasehold.released r ON r.name = wanted COLLATE "C" AND r.fence = l.fence
  LEFT JOIN leasehold.boot ON boot.one
$$;
