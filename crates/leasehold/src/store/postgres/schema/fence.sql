-- Passes if `token` is the newest token of a lock, and its hold has not ended. Then the name is
-- granted to nobody else before the calling transaction has ended. Otherwise it raises LH001, also
-- for a name or a token that is none.
--
-- It is for exclusive leases only. The error does not tell the newest token, with which the caller
-- would pass. It also gives its code as the name of a constraint, for drivers that show only that
-- name.
CREATE FUNCTION leasehold.fence(name text, token bigint) RETURNS void
LANGUAGE plpgsql AS_OWNER AS $$
DECLARE is_newest boolean; is_same_file boolean;
BEGIN
  -- This waits for a grant that is under way, and for nothing else.
  PERFORM 1 FROM leasehold.lease l WHERE l.name = fence.name COLLATE "C"
  ORDER BY l.epoch DESC LIMIT 1 FOR KEY SHARE;
  -- VACUUM FULL and CLUSTER forget which lock a grant had. The snapshot has the file as it was then,
  -- and the function reads the present one. The lock keeps it.
  SELECT l.fence = leasehold.time_of_4(token) AND NOT EXISTS (
      SELECT FROM leasehold.released r WHERE r.name = l.name AND r.fence = l.fence),
    c.relfilenode = pg_relation_filenode(c.oid)
  INTO is_newest, is_same_file
  FROM leasehold.lease l JOIN pg_class c ON c.oid = 'leasehold.lease'::regclass
  WHERE l.name = fence.name COLLATE "C" ORDER BY l.epoch DESC LIMIT 1;
  IF is_newest AND NOT is_same_file THEN
    RAISE SQLSTATE '40001' USING MESSAGE = 'leasehold: the table was rewritten: try again';
  END IF;
  IF is_newest IS NOT TRUE THEN
    RAISE EXCEPTION 'leasehold: the lease of % with token % is over', fence.name, fence.token
      USING ERRCODE = 'LH001', CONSTRAINT = 'LH001',
        HINT = 'Take the lease before the transaction begins, and begin anew with a new one.';
  END IF;
  -- If this is not free, the call goes on without it: the row lock above is enough.
  PERFORM pg_try_advisory_xact_lock_shared(leasehold.sign_4(fence.name));
END
$$;
