-- Removes the rows of names that have been free for ten seconds, at most ten thousand. Returns
-- whether there may be more. It also removes what is over of `released`.
CREATE FUNCTION leasehold.sweep_4() RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE removed bigint; highest bigint;
BEGIN
  -- One client at a time. The lock also keeps `forgotten` as it is until the rows are gone.
  PERFORM 1 FROM leasehold.number n WHERE n.name = 'forgotten' FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  WITH over AS (
    DELETE FROM leasehold.lease l WHERE l.ctid = ANY (ARRAY(
      SELECT o.ctid FROM leasehold.lease o WHERE o.free_from_us < leasehold.clock_4() - 10000000
      LIMIT 10000 FOR UPDATE SKIP LOCKED))
    RETURNING l.counter
  )
  SELECT count(*), max(over.counter) INTO removed, highest FROM over;
  UPDATE leasehold.number n SET value = highest WHERE n.name = 'forgotten' AND n.value < highest;
  DELETE FROM leasehold.released r WHERE NOT EXISTS (
    SELECT FROM leasehold.lease l WHERE l.name = r.name AND l.fence = r.fence);
  PERFORM set_config('synchronous_commit', 'off', true);
  RETURN removed = 10000;
END
$$;
