-- Describes the transactions that hold a name back: the process, the application, and, if this role
-- may see that, for how long the transaction has been open.
CREATE FUNCTION leasehold.held_back_4(wanted text) RETURNS SETOF text
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN k.pid IS NULL THEN 'a prepared transaction' ELSE concat(
    'process ', k.pid, ' of the server',
    ', application "' || nullif(a.application_name, '') || '"',
    ', open for ' || floor(extract(epoch FROM clock_timestamp() - a.xact_start)) || ' s') END
  FROM pg_locks k LEFT JOIN pg_stat_activity a ON a.pid = k.pid
  WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 1
    AND k.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    AND (k.classid::bigint << 32) | k.objid::bigint = leasehold.sign_4(wanted)
  ORDER BY k.pid
$$;
