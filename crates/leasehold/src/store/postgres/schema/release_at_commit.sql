-- Fences the calling transaction, and ends the hold with its commit: the writes and the end of the
-- lease are one step. After a rollback, the lease is unchanged. Raises LH001 as `fence` does.
--
-- The next step on the name writes that end into its row.
CREATE FUNCTION leasehold.release_at_commit(name text, token bigint) RETURNS void
LANGUAGE plpgsql AS_OWNER AS $$
BEGIN
  PERFORM leasehold.fence(release_at_commit.name, release_at_commit.token);
  -- If two transactions do this for one lease, the second waits here.
  INSERT INTO leasehold.released
  VALUES (release_at_commit.name, leasehold.time_of_4(release_at_commit.token))
  ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    PERFORM leasehold.fence(release_at_commit.name, release_at_commit.token);
  END IF;
END
$$;
