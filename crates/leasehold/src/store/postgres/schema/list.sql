-- Lists names that begin with a prefix and come after another name, in the order of their bytes.
-- `is_used` means that somebody holds or awaits the name. Lists only names in use, or all. It fails
-- on a standby, which cannot read `boot`.
CREATE FUNCTION leasehold.list_3(prefix text, beyond text, at_most bigint, with_unused boolean)
RETURNS TABLE (now_us bigint, name text, is_used boolean)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
  SELECT one.now_us, found.name, found.is_used
  FROM (SELECT leasehold.clock_3() AS now_us) AS one LEFT JOIN LATERAL (
    SELECT known.name, known.is_used FROM (
      SELECT l.name,
        CASE WHEN l.record IS NULL THEN l.free_from_us ELSE l.used_until_us END > one.now_us
          AS is_used
      FROM leasehold.lease l
      WHERE l.name >= prefix COLLATE "C" AND starts_with(l.name, prefix)
        AND l.name > beyond COLLATE "C"
    ) AS known
    WHERE with_unused OR known.is_used
    ORDER BY known.name LIMIT at_most
  ) AS found ON true
  LEFT JOIN leasehold.boot ON boot.one
$$;
