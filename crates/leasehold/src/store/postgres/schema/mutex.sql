-- The key of the mutex of a name: an advisory lock that a transaction takes. Names in another
-- schema have other keys.
CREATE FUNCTION leasehold.mutex_2(name text) RETURNS bigint
LANGUAGE sql STABLE AS $$
  SELECT hashtextextended(name, 'leasehold.lock'::regclass::oid::bigint)
$$;

-- The key of another advisory lock, which only shows which transaction holds a name back. Fenced
-- transactions share the lock.
CREATE FUNCTION leasehold.hold_2(name text) RETURNS bigint
LANGUAGE sql STABLE AS $$
  SELECT hashtextextended(name, 'leasehold.token'::regclass::oid::bigint)
$$;

-- The counter of a name: one of 1,024.
CREATE FUNCTION leasehold.bucket_2(name text) RETURNS int
LANGUAGE sql STABLE AS $$
  SELECT (hashtextextended(name, 0) & 1023)::int
$$;
