-- The clock for the ends of leases and for tokens: microseconds since 1970.
--
-- Most functions that only other functions call have no `SET` clause. So PostgreSQL inlines them
-- into their callers, which saves the call. The callers set the search path.
CREATE FUNCTION leasehold.clock_4() RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT (date_part('epoch', clock_timestamp()) * 1000000)::bigint $$;

-- The time of a token, as rows have it. The twelve low bits belong to the holder's process, so
-- tasks of one client that pass a lease on are one holder.
CREATE FUNCTION leasehold.time_of_4(token bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT (token >> 12) + 1577836800000000 $$;

-- The key of an advisory lock that fenced transactions share. It only shows which transaction holds
-- a name back: nothing depends on it, because everybody may take advisory locks.
CREATE FUNCTION leasehold.sign_4(name text) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT hashtextextended(name, 'leasehold.lease'::regclass::oid::bigint) $$;
