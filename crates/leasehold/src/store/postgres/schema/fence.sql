-- Passes if `token` is the newest of a lock's tokens and its hold has not ended. From then on nobody is
-- granted the name before the calling transaction has ended. Raises LH001 otherwise.
--
-- Exclusive leases only. Tokens are compared without their twelve low bits: tasks of one client
-- that pass a lease on among themselves are one holder. The code stands in the place of a
-- constraint, too, for drivers that show no other.
CREATE FUNCTION leasehold.fence(name text, token bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
  newest bigint;
  gone bigint;
  current bigint;
  fenced text := coalesce(current_setting('leasehold.fenced', true), '');
BEGIN
  -- The lock comes first and the look at the hold after it: a grant between the two is waited for.
  SELECT t.token, t.released INTO newest, gone FROM leasehold.token t
  WHERE t.name = fence.name COLLATE "C" ORDER BY t.epoch DESC LIMIT 1 FOR SHARE;
  SELECT l.fence INTO current FROM leasehold.lock l
  WHERE l.name = fence.name COLLATE "C" ORDER BY l.epoch DESC LIMIT 1;
  IF newest >> 12 IS DISTINCT FROM fence.token >> 12
    OR current >> 12 IS DISTINCT FROM fence.token >> 12
    OR gone = newest
  THEN
    RAISE EXCEPTION 'leasehold: the lease of % with token % is over', fence.name, fence.token
      USING ERRCODE = 'LH001', CONSTRAINT = 'LH001', DETAIL = format('The newest token is %s.', newest),
        HINT = 'Take the lease before the transaction begins, and begin anew with a new one.';
  END IF;
  -- By this it is found who holds the name back. Where it is not had, `try_hold` stands in the way
  -- for a moment, and the row lock above does without.
  PERFORM pg_try_advisory_xact_lock_shared(leasehold.hold_1(fence.name));
  -- For `require_fence`. It goes with the transaction or the savepoint, as the row lock does.
  IF position(E'\n' || fence.name || E'\n' IN E'\n' || fenced) = 0 THEN
    PERFORM set_config('leasehold.fenced', fenced || fence.name || E'\n', true);
  END IF;
END
$$;
