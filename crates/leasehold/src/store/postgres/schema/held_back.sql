-- The transactions that hold names back, for all names or for some. A row has the process (NULL for
-- a prepared transaction) and the name of the application. The row also has the time for which the
-- transaction has been open, if this role may see that.
CREATE FUNCTION leasehold.held_back_2(names text[])
RETURNS TABLE (name text, pid int, application text, open_us bigint)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT wanted.name, k.pid, a.application_name,
    (extract(epoch FROM clock_timestamp() - a.xact_start) * 1000000)::bigint
  FROM pg_locks k
  JOIN unnest(coalesce(names, ARRAY(SELECT l.name FROM leasehold.lock l))) AS wanted (name)
    ON leasehold.hold_2(wanted.name) = (k.classid::bigint << 32) | k.objid::bigint
  LEFT JOIN pg_stat_activity a ON a.pid = k.pid
  WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 1
    AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  ORDER BY wanted.name, k.pid
$$;
