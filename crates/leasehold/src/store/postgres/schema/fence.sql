-- Passes if `token` is the newest token of a lock, and its hold has not ended. Then the name is
-- granted to nobody else before the calling transaction has ended. Otherwise it raises LH001.
--
-- It is for exclusive leases only. Tokens are compared without their twelve low bits, because tasks
-- of one client that pass a lease on are one holder. The error also gives its code as the name of a
-- constraint, for drivers that show only that name.
CREATE FUNCTION leasehold.fence(name text, token bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
DECLARE
  newest bigint;
  gone bigint;
  current bigint;
BEGIN
  -- The row lock comes first, and then the check of the hold. So this call waits for a grant that
  -- is under way.
  SELECT t.token, t.released INTO newest, gone FROM leasehold.token t
  WHERE t.name = fence.name COLLATE "C" FOR SHARE;
  SELECT l.fence INTO current FROM leasehold.lock l WHERE l.name = fence.name COLLATE "C";
  IF newest >> 12 IS DISTINCT FROM fence.token >> 12
    OR current >> 12 IS DISTINCT FROM fence.token >> 12
    OR gone = newest
  THEN
    RAISE EXCEPTION 'leasehold: the lease of % with token % is over', fence.name, fence.token
      USING ERRCODE = 'LH001', CONSTRAINT = 'LH001',
        DETAIL = coalesce('The newest token is ' || newest, 'Nobody holds it') || '.',
        HINT = 'Take the lease before the transaction begins, and begin anew with a new one.';
  END IF;
  -- This advisory lock only shows which transaction holds the name back. If it is not free, this
  -- call goes on without it, because the row lock above is enough.
  PERFORM pg_try_advisory_xact_lock_shared(leasehold.hold_2(fence.name));
END
$$;
