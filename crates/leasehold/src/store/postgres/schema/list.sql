-- Lists names that begin with a prefix and come after another name, in the order of their bytes.
-- `is_used` means that somebody holds or awaits the name. It fails on a standby, which cannot read
-- `boot`.
CREATE FUNCTION leasehold.list_4(prefix text, beyond text, at_most bigint)
RETURNS TABLE (now_us bigint, name text, is_used boolean)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
  SELECT one.now_us, found.name, found.is_used
  FROM (SELECT leasehold.clock_4() AS now_us) AS one LEFT JOIN LATERAL (
    SELECT l.name, one.now_us <
      CASE WHEN l.record IS NULL THEN l.free_from_us ELSE l.used_until_us END AS is_used
    FROM leasehold.lease l
    WHERE l.name >= prefix COLLATE "C" AND starts_with(l.name, prefix)
      AND l.name > beyond COLLATE "C" ORDER BY l.name LIMIT at_most
  ) AS found ON true
  LEFT JOIN leasehold.boot ON boot.one
$$;
