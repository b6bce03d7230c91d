-- Reads the row of one name without its lock, for callers that only look. `is_released` says
-- whether a transaction has released the hold. It fails on a standby, which cannot read `boot`. So
-- a standby that lags behind never shows an old state.
CREATE FUNCTION leasehold.read_4(wanted text)
RETURNS TABLE (now_us bigint, hold text, used_until_us bigint, queue text[], record text,
  is_released boolean)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
  SELECT leasehold.clock_4(), l.hold, l.used_until_us, l.queue, l.record, r.name IS NOT NULL
  FROM (SELECT 1) AS one
  LEFT JOIN LATERAL (SELECT * FROM leasehold.lease l WHERE l.name = wanted COLLATE "C"
    ORDER BY l.epoch DESC LIMIT 1) AS l ON true
  LEFT JOIN leasehold.released r ON r.name = wanted COLLATE "C" AND r.fence = l.fence
  LEFT JOIN leasehold.boot ON boot.one
$$;
