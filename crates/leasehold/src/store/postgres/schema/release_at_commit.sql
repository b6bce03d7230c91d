-- Fences the calling transaction, and ends the hold with its commit: the writes and the end of the
-- lease are one step. After a rollback, the lease is unchanged. Raises LH001 as `fence` does.
--
-- The next step on the name writes the end into its record: a release of the same guard, or the
-- next request of a waiter.
CREATE FUNCTION leasehold.release_at_commit(name text, token bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
  -- If two transactions do this for one lease, the second waits here. If both had the shared lock
  -- of `fence` first, they would wait for each other.
  PERFORM 1 FROM leasehold.token t
  WHERE t.name = release_at_commit.name COLLATE "C" FOR NO KEY UPDATE;
  PERFORM leasehold.fence(name, token);
  UPDATE leasehold.token t SET released = t.token
  WHERE t.name = release_at_commit.name COLLATE "C"
    AND t.token >> 12 = release_at_commit.token >> 12;
END
$$;
