-- Begins a step on a name: locks its row, then reads the row and the clock.
--
-- Returns the clock, what `lease` has, the version of the row, and the newest token of the name that
-- a transaction has released. The last column is of `boot`. It is NULL if no client has checked yet
-- whether the server has forgotten anything, or if the row is out of a dump.
CREATE FUNCTION leasehold.open_4(wanted text)
RETURNS TABLE (now_us bigint, epoch bigint, version text, counter bigint, hold text,
  used_until_us bigint, queue text[], record text, released bigint, grants_from_us bigint)
LANGUAGE plpgsql AS_OWNER AS $$
#variable_conflict use_column
BEGIN
  FOR turn IN 1..2 LOOP
    PERFORM 1 FROM leasehold.lease l WHERE l.name = wanted COLLATE "C"
    ORDER BY l.epoch DESC LIMIT 1 FOR NO KEY UPDATE;
    EXIT WHEN FOUND;
    -- Two transactions that make the same row wait for each other here.
    INSERT INTO leasehold.lease (name, counter)
    SELECT wanted, n.value FROM leasehold.number n WHERE n.name = 'forgotten'
    ON CONFLICT DO NOTHING;
  END LOOP;
  -- The row was removed meanwhile, or made a second time while its epoch went on.
  IF (SELECT count(*) FROM leasehold.lease l WHERE l.name = wanted COLLATE "C") <> 1 THEN
    RAISE EXCEPTION 'leasehold: % was changed meanwhile', wanted USING ERRCODE = 'LH003';
  END IF;
  RETURN QUERY
    SELECT leasehold.clock_4(), l.epoch, l.xmin::text, l.counter, l.hold, l.used_until_us,
      l.queue, l.record, (SELECT max(r.fence) FROM leasehold.released r WHERE r.name = l.name),
      boot.grants_from_us
    FROM leasehold.lease l
    LEFT JOIN leasehold.boot ON boot.one AND boot.made_in = boot.tableoid
    WHERE l.name = wanted COLLATE "C";
END
$$;
