-- The key of the mutex of a name: an advisory lock that a transaction takes. Names in another
-- schema have other keys.
CREATE FUNCTION leasehold.mutex_1(name text) RETURNS bigint
LANGUAGE sql STABLE AS $$
  SELECT hashtextextended(name, 'leasehold.lock'::regclass::oid::bigint)
$$;

-- The key of another advisory lock, which shows which transaction holds a name back. For a name
-- without a row, only this lock holds it back. Fenced transactions share the lock.
CREATE FUNCTION leasehold.hold_1(name text) RETURNS bigint
LANGUAGE sql STABLE AS $$
  SELECT hashtextextended(name, 'leasehold.token'::regclass::oid::bigint)
$$;
