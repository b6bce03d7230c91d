-- Finds out whether the server may have forgotten anything that it has acknowledged, and begins or
-- ends a quarantine.
--
-- longest_us: the span of a quarantine, at least as long as the caller's longest lease. is_over:
-- whether an operator says that nothing was forgotten.
--
-- Returns the clock, and the time from which new grants may be made. If the row in `boot` is gone,
-- the server has crashed or was promoted. Nothing is lost on the same timeline, if the disk keeps
-- its data. Otherwise nothing new is granted for as long as an earlier lease may last.
CREATE FUNCTION leasehold.boot_4(longest_us bigint, is_over boolean)
RETURNS TABLE (now_us bigint, grants_from_us bigint)
LANGUAGE plpgsql AS_OWNER AS $$
DECLARE this bigint; known bigint; longest bigint; before leasehold.boot%ROWTYPE;
BEGIN
  -- One client at a time. Only the owner may take this lock. It needs no write, so the commit waits
  -- for no standby.
  LOCK TABLE leasehold.boot IN SHARE ROW EXCLUSIVE MODE;
  now_us := leasehold.clock_4();
  this := leasehold.history_4();
  SELECT n.value INTO known FROM leasehold.number n WHERE n.name = 'history';
  SELECT n.value INTO longest FROM leasehold.number n WHERE n.name = 'longest';
  SELECT b.* INTO before FROM leasehold.boot b WHERE b.one;
  CASE
    WHEN before.history = this THEN
      grants_from_us := before.grants_from_us;
      -- A quarantine that has begun was computed for shorter leases, so it is extended.
      IF grants_from_us > now_us AND longest_us > longest THEN
        grants_from_us := grants_from_us + longest_us - longest;
      END IF;
    WHEN known IS NULL THEN
      grants_from_us := 0; -- the schema is new
    WHEN known = this AND current_setting('fsync')::boolean THEN
      SELECT n.value INTO grants_from_us FROM leasehold.number n WHERE n.name = 'grants_from';
    ELSE
      grants_from_us := now_us + greatest(longest, longest_us);
  END CASE;
  longest := greatest(longest, longest_us);
  -- If the clock was set back, the quarantine counts from now.
  grants_from_us := CASE WHEN is_over THEN 0 ELSE least(grants_from_us, now_us + longest) END;
  -- Unchanged numbers are left out. ON CONFLICT locks the row even for the same value, and the
  -- commit would then wait for the disk and for standbys.
  INSERT INTO leasehold.number
  SELECT said.name, said.value FROM (VALUES ('history', this), ('longest', longest), ('grants_from', grants_from_us))
    AS said (name, value)
  WHERE NOT EXISTS (SELECT FROM leasehold.number n WHERE (n.name, n.value) = (said.name, said.value))
  ON CONFLICT (name) DO UPDATE SET value = excluded.value;
  IF (before.history, before.grants_from_us) IS DISTINCT FROM (this, grants_from_us) THEN
    INSERT INTO leasehold.boot
    VALUES (true, this, grants_from_us, 'leasehold.boot'::regclass)
    ON CONFLICT (one) DO UPDATE SET history = excluded.history,
      grants_from_us = excluded.grants_from_us, made_in = excluded.made_in;
  END IF;
  RETURN NEXT;
END
$$;

-- A number for the present history of the data: this cluster, this timeline, and the table as it
-- was created here. A promotion begins a new timeline. Data from a dump are in other tables, or in
-- another cluster.
CREATE FUNCTION leasehold.history_4() RETURNS bigint
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT hashtextextended(concat_ws(' ',
    (SELECT c.system_identifier FROM pg_control_system() AS c),
    left(pg_walfile_name(pg_current_wal_insert_lsn()), 8),
    'leasehold.boot'::regclass::oid), 0)
$$;
