-- Lists names that begin with a prefix and come after another name, in the order of their bytes.
-- `idle` means that nobody holds or awaits the name. Lists only names in use, or all. It fails on a
-- standby, which cannot read `boot`.
CREATE FUNCTION leasehold.list_1(prefix text, beyond text, at_most bigint, with_idle boolean)
RETURNS TABLE (now_us bigint, name text, idle boolean)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
  SELECT leasehold.clock_1(), found.name, found.idle
  FROM (SELECT 1) AS one LEFT JOIN (
    SELECT l.name, l.idle FROM leasehold.lock l
    WHERE l.name >= prefix COLLATE "C" AND starts_with(l.name, prefix)
      AND l.name > beyond COLLATE "C" AND (with_idle OR NOT l.idle)
    ORDER BY l.name LIMIT at_most
  ) AS found ON true
  LEFT JOIN leasehold.boot ON boot.one
$$;
