-- Whether a quick path may run in this transaction. If so, also sets what the commit waits for
-- (`synchronous_commit`).
CREATE FUNCTION leasehold.quick_begin_1(commit_level text) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT current_setting('transaction_isolation') = 'read committed'
    AND current_setting('transaction_read_only') = 'off'
    AND CASE current_setting('synchronous_commit') WHEN commit_level THEN true
      ELSE set_config('synchronous_commit', commit_level, true) IS NOT NULL END
$$;

-- Takes the mutex of a name, and returns whether it got it. For a single name it waits, for at most
-- `patience`; with several names, waiting could cause a deadlock.
CREATE FUNCTION leasehold.quick_mutex_1(name text, is_alone boolean, patience text)
RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT CASE WHEN pg_try_advisory_xact_lock(leasehold.mutex_1(name)) THEN true
    WHEN is_alone THEN set_config('lock_timeout', patience, true) IS NOT NULL
      AND pg_advisory_xact_lock(leasehold.mutex_1(name)) IS NOT NULL
    ELSE false END
$$;
