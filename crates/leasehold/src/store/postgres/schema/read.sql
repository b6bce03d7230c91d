-- Reads the record of one name without its mutex, for callers that only look, and the token of a
-- hold that a transaction has released. It fails on a standby, which cannot read `boot`. So a
-- standby that lags behind never shows an old state.
CREATE FUNCTION leasehold.read_2(wanted text)
RETURNS TABLE (now_us bigint, record text, released bigint)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
  SELECT leasehold.clock_2(), l.record, t.released
  FROM (SELECT 1) AS one
  LEFT JOIN leasehold.lock l ON l.name = wanted COLLATE "C"
  LEFT JOIN leasehold.token t ON t.name = wanted COLLATE "C"
  LEFT JOIN leasehold.boot ON boot.one
$$;
