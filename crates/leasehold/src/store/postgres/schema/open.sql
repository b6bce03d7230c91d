-- Begins a step on some names: takes their mutexes, then reads their rows and the clock.
--
-- names: each only once. Returns a row for each: the clock, the name, and the epoch, the changes
-- and the record of its row, NULL if there is no row. Each row also has the token above which the
-- tokens of new names begin, and the changes by quick paths. Then follows the token of a hold that
-- a transaction has released. The last column is of `boot`. It is NULL if no client has
-- checked yet whether the server has forgotten anything, or if the row is out of a dump.
CREATE FUNCTION leasehold.open_1(names text[])
RETURNS TABLE (now_us bigint, name text, epoch bigint, changes int, forgotten bigint, record bytea,
  last_token bigint, collect_at_us bigint, since_us bigint, given bytea, deadline_us bigint,
  ttl_us bigint, bound_us bigint, longest_ttl_us bigint, ended bytea, ended_us bigint,
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
    SELECT DISTINCT leasehold.mutex_1(wanted) AS key FROM unnest(names) AS wanted ORDER BY key
  LOOP
    PERFORM pg_advisory_xact_lock(key);
  END LOOP;
  RETURN QUERY
    SELECT leasehold.clock_1(), wanted, found.epoch, found.changes,
      (SELECT n.value FROM leasehold.number n WHERE n.name = 'forgotten'), found.record,
      found.last_token, found.collect_at_us, found.since_us, found.given, found.deadline_us,
      found.ttl_us, found.bound_us, found.longest_ttl_us, found.ended, found.ended_us,
      (SELECT t.released FROM leasehold.token t WHERE t.name = wanted COLLATE "C"
        ORDER BY t.epoch DESC LIMIT 1), boot.grants_from_us
    FROM unnest(names) AS wanted
    LEFT JOIN LATERAL (
      SELECT l.* FROM leasehold.lock l
      WHERE l.name = wanted COLLATE "C" ORDER BY l.epoch DESC LIMIT 1
    ) AS found ON true
    LEFT JOIN leasehold.boot ON boot.one AND boot.made_in = boot.tableoid;
END
$$;
