-- Whether a quick path may run in this transaction. If so, the commit waits as its level says.
CREATE FUNCTION leasehold.quick_begin_1(commit_level text) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT current_setting('transaction_isolation') = 'read committed'
    AND current_setting('transaction_read_only') = 'off'
    AND CASE current_setting('synchronous_commit') WHEN commit_level THEN true
      ELSE set_config('synchronous_commit', commit_level, true) IS NOT NULL END
$$;

-- Whether the mutex of a name is had. One name is waited for, at most for as long as `patience`
-- says; with several, that would be a deadlock.
CREATE FUNCTION leasehold.quick_mutex_1(name text, is_alone boolean, patience text)
RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT CASE WHEN pg_try_advisory_xact_lock(leasehold.mutex_1(name)) THEN true
    WHEN is_alone THEN set_config('lock_timeout', patience, true) IS NOT NULL
      AND pg_advisory_xact_lock(leasehold.mutex_1(name)) IS NOT NULL
    ELSE false END
$$;
