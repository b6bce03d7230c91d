-- The clock by which leases end and from which tokens come: microseconds since 1970.
--
-- This function, and the others that only functions call, have no settings, so PostgreSQL puts them
-- into their callers, and they cost no call. The callers have a search path.
CREATE FUNCTION leasehold.clock_1() RETURNS bigint
LANGUAGE sql VOLATILE AS $$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;
