-- Reads the record of one name without its mutex, for callers that only look. It also returns the
-- changes by quick paths, and the token of a hold that a transaction has released. It fails on a
-- standby, which cannot read `boot`. So a standby that lags behind never shows an old state.
CREATE FUNCTION leasehold.read_1(wanted text)
RETURNS TABLE (now_us bigint, record bytea, last_token bigint, collect_at_us bigint,
  since_us bigint, given bytea, deadline_us bigint, ttl_us bigint, bound_us bigint,
  longest_ttl_us bigint, ended bytea, ended_us bigint, released bigint)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
  SELECT leasehold.clock_1(), found.record, found.last_token, found.collect_at_us, found.since_us,
    found.given, found.deadline_us, found.ttl_us, found.bound_us, found.longest_ttl_us,
    found.ended, found.ended_us,
    (SELECT t.released FROM leasehold.token t
    WHERE t.name = wanted COLLATE "C" ORDER BY t.epoch DESC LIMIT 1)
  FROM (SELECT 1) AS one LEFT JOIN LATERAL (
    SELECT l.* FROM leasehold.lock l
    WHERE l.name = wanted COLLATE "C" ORDER BY l.epoch DESC LIMIT 1
  ) AS found ON true
  LEFT JOIN leasehold.boot ON boot.one
$$;
