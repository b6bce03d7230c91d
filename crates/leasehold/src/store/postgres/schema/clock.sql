-- The clock by which leases end and from which tokens come: microseconds since 1970.
CREATE FUNCTION leasehold.clock_1() RETURNS bigint
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;
