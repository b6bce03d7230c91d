-- The clock by which leases end and from which tokens come: microseconds since 1970.
--
-- This function, and the others that only functions call, have no settings of their own: so they
-- are part of whatever calls them, and cost no call. Those have a search path.
CREATE FUNCTION leasehold.clock_1() RETURNS bigint
LANGUAGE sql VOLATILE AS $$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;
