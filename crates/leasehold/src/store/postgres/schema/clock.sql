-- The clock for the ends of leases and for tokens: microseconds since 1970.
--
-- Most functions that only other functions call have no `SET` clause. So PostgreSQL inlines them
-- into their callers, which saves the call. The callers set the search path.
CREATE FUNCTION leasehold.clock_2() RETURNS bigint
LANGUAGE sql VOLATILE AS $$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;
