-- Begins a step on some names: takes their mutexes, then reads their rows and the clock.
--
-- names: each only once. Returns a row for each: the clock, the name, and the version and the
-- record of its row, NULL if there is no row. Then follow the counter of the name, and the token of
-- a hold that a transaction has released. The last column is of `boot`. It is NULL if no client has
-- checked yet whether the server has forgotten anything, or if the row is out of a dump.
CREATE FUNCTION leasehold.open_2(names text[])
RETURNS TABLE (now_us bigint, name text, version text, record text, counter bigint,
  released bigint, grants_from_us bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
  key bigint;
BEGIN
  -- With an older snapshot, the row of a new name could be made twice.
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'leasehold: a step needs READ COMMITTED' USING ERRCODE = 'LH002';
  END IF;
  -- All steps take mutexes in one order, so that no two steps wait for each other.
  FOR key IN
    SELECT DISTINCT leasehold.mutex_2(wanted) AS key FROM unnest(names) AS wanted ORDER BY key
  LOOP
    PERFORM pg_advisory_xact_lock(key);
  END LOOP;
  RETURN QUERY
    SELECT leasehold.clock_2(), wanted, l.xmin::text, l.record, coalesce(c.value, 0), t.released,
      boot.grants_from_us
    FROM unnest(names) AS wanted
    LEFT JOIN leasehold.lock l ON l.name = wanted COLLATE "C"
    LEFT JOIN leasehold.counter c ON c.bucket = leasehold.bucket_2(wanted)
    LEFT JOIN leasehold.token t ON t.name = wanted COLLATE "C"
    LEFT JOIN leasehold.boot ON boot.one AND boot.made_in = boot.tableoid;
END
$$;
