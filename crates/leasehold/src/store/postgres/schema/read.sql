-- Reads the record of one name without its mutex, for what only looks.
CREATE FUNCTION leasehold.read_1(wanted text)
RETURNS TABLE (now_us bigint, record bytea)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
  SELECT leasehold.clock_1(), (SELECT l.record FROM leasehold.lock l
    WHERE l.name = wanted COLLATE "C" ORDER BY l.epoch DESC LIMIT 1)
$$;
