-- Fences the calling transaction, and ends the hold with its commit: what was written and the end of
-- the lease are one. After a rollback the lease is as it was. Raises LH001 as `fence` does.
--
-- The next step on the name brings the end into its record: a release of the same guard, or the next
-- question of who waits.
CREATE FUNCTION leasehold.release_at_commit(name text, token bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off AS $$
BEGIN
  -- Of two that do this for one lease, the second waits here and not for a lock that both share.
  PERFORM 1 FROM leasehold.token t
  WHERE t.name = release_at_commit.name COLLATE "C" FOR NO KEY UPDATE;
  PERFORM leasehold.fence(name, token);
  UPDATE leasehold.token t SET released = t.token
  WHERE t.name = release_at_commit.name COLLATE "C"
    AND t.token >> 12 = release_at_commit.token >> 12;
END
$$;
