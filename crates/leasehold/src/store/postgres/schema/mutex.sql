-- The key of the mutex of a name: an advisory lock that a transaction takes. Names in another
-- schema have other keys.
CREATE FUNCTION leasehold.mutex_1(name text) RETURNS bigint
LANGUAGE sql STABLE AS $$
  SELECT hashtextextended(name, 'leasehold.lock'::regclass::oid::bigint)
$$;

-- The key of the advisory lock by which a transaction that holds a name back is found, and by which
-- a name without a row is held back. Fenced transactions share it.
CREATE FUNCTION leasehold.hold_1(name text) RETURNS bigint
LANGUAGE sql STABLE AS $$
  SELECT hashtextextended(name, 'leasehold.token'::regclass::oid::bigint)
$$;
