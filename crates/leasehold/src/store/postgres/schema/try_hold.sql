-- Returns whether a name is free, and no quarantine prevents grants. If so, nobody else is granted
-- the name before the calling transaction has ended. This is a lock for work that is one
-- transaction: it has no lease and no token, and needs no renewal.
--
-- It needs READ COMMITTED, because an older snapshot does not show the present holder. A dead
-- holder still counts, until a step has noticed the end of its lease, or the retention is over.
CREATE FUNCTION leasehold.try_hold(name text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
  token_epoch bigint;
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'leasehold: try_hold needs READ COMMITTED' USING ERRCODE = 'LH002';
  END IF;
  -- The name is checked twice: first without any lock, so that a busy name is not even locked, and
  -- again at the end.
  IF NOT leasehold.may_grant_1() OR NOT leasehold.is_free_1(name) THEN
    RETURN false;
  END IF;
  -- An error ends this block as a savepoint: if the answer is false, the locks go with it.
  BEGIN
    IF NOT pg_try_advisory_xact_lock(leasehold.hold_1(name)) THEN
      RETURN false;
    END IF;
    SELECT t.epoch INTO token_epoch FROM leasehold.token t
    WHERE t.name = try_hold.name COLLATE "C" ORDER BY t.epoch DESC LIMIT 1;
    IF FOUND THEN
      PERFORM 1 FROM leasehold.token t
      WHERE t.name = try_hold.name COLLATE "C" AND t.epoch = token_epoch
      FOR NO KEY UPDATE SKIP LOCKED;
      IF NOT FOUND THEN
        RAISE SQLSTATE 'LH005';
      END IF;
      -- As after a grant, `fence` fails in a transaction whose snapshot is older than this one's
      -- commit.
      UPDATE leasehold.token t SET token = t.token
      WHERE t.name = try_hold.name COLLATE "C" AND t.epoch = token_epoch;
    END IF;
    IF NOT leasehold.is_free_1(name) THEN
      RAISE SQLSTATE 'LH005';
    END IF;
    RETURN true;
  EXCEPTION WHEN SQLSTATE 'LH005' THEN
    RETURN false;
  END;
END
$$;

-- Whether nothing is known that forbids new grants. Without a row in `boot`, this comes to the same
-- as `boot_1`, but begins no quarantine. If no client has ever asked `boot_1`, there is none.
CREATE FUNCTION leasehold.may_grant_1() RETURNS boolean
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(
    (SELECT b.grants_from_us <= leasehold.clock_1() FROM leasehold.boot b
      WHERE b.one AND b.made_in = b.tableoid),
    (SELECT bool_and(CASE n.name
      WHEN 'history' THEN n.value = leasehold.history_1() AND current_setting('fsync')::boolean
      WHEN 'lossy' THEN n.value = 0
      WHEN 'grants_from' THEN n.value <= leasehold.clock_1()
      ELSE true END) FROM leasehold.number n))
$$;

-- Whether nobody holds or awaits a name.
CREATE FUNCTION leasehold.is_free_1(name text) RETURNS boolean
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT NOT EXISTS (SELECT FROM leasehold.lock l WHERE l.name = is_free_1.name COLLATE "C"
    AND NOT l.idle AND l.collect_at_us > leasehold.clock_1())
$$;
