-- Removes what dead holders have left under names that nobody has asked for since.
CREATE FUNCTION leasehold.sweep_2() RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET jit = off AS $$
DECLARE
  over text;
BEGIN
  FOR over IN
    SELECT name FROM leasehold.lock l FULL JOIN leasehold.token t USING (name)
    WHERE coalesce(l.kept_until_us, 0) < leasehold.clock_2() LIMIT 200
  LOOP
    CONTINUE WHEN NOT pg_try_advisory_xact_lock(leasehold.mutex_2(over));
    DELETE FROM leasehold.lock l
    WHERE l.name = over COLLATE "C" AND l.kept_until_us < leasehold.clock_2();
    IF NOT EXISTS (SELECT FROM leasehold.lock l WHERE l.name = over COLLATE "C")
      AND leasehold.is_unfenced_2(over)
    THEN
      DELETE FROM leasehold.token t WHERE t.name = over COLLATE "C";
    END IF;
  END LOOP;
END
$$;
