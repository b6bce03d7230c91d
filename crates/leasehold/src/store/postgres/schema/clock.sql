-- The clock for the ends of leases and for tokens: microseconds since 1970.
--
-- Functions that only other functions call have no settings. So PostgreSQL inlines them into their
-- callers, and they cost no call. The callers have a search path.
CREATE FUNCTION leasehold.clock_1() RETURNS bigint
LANGUAGE sql VOLATILE AS $$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;
