-- The transactions that hold names back, for all names or for some. A row has the process (NULL for
-- a prepared transaction) and the name of the application. The row also has the time for which the
-- transaction has been open, if this role may see that, and whether the transaction is fenced.
CREATE FUNCTION leasehold.held_back_1(names text[])
RETURNS TABLE (name text, pid int, application text, open_us bigint, is_fenced boolean)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT wanted.name, k.pid, a.application_name,
    (extract(epoch FROM clock_timestamp() - a.xact_start) * 1000000)::bigint,
    k.mode = 'ShareLock'
  FROM pg_locks k
  JOIN unnest(coalesce(names, ARRAY(SELECT l.name FROM leasehold.lock l))) AS wanted (name)
    ON leasehold.hold_1(wanted.name) = (k.classid::bigint << 32) | k.objid::bigint
  LEFT JOIN pg_stat_activity a ON a.pid = k.pid
  WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 1
    AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  ORDER BY wanted.name, k.pid
$$;

-- Ends the sessions whose fenced transactions hold a name back, and returns their number. It ends
-- none while somebody has the name, because the transaction may be that holder's. The mutex keeps
-- the name from being granted meanwhile. The owner of this function needs the role
-- `pg_signal_backend`.
CREATE FUNCTION leasehold.end_fenced_1(name text) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT pg_advisory_xact_lock(leasehold.mutex_1(end_fenced_1.name));
  SELECT count(*) FILTER (WHERE pg_terminate_backend(h.pid))
  FROM leasehold.held_back_1(ARRAY[end_fenced_1.name]) AS h WHERE h.is_fenced AND h.pid IS NOT NULL
    AND NOT EXISTS (SELECT FROM leasehold.lock l
      WHERE l.name = end_fenced_1.name COLLATE "C" AND l.fence IS NOT NULL)
$$;
